// COXSWAIN_HOST_DEVICE marks what is compiled for host and device alike.
#ifndef COXSWAIN_KERNELS_HOST_DEVICE_H_
#define COXSWAIN_KERNELS_HOST_DEVICE_H_

#ifdef __CUDACC__
#define COXSWAIN_HOST_DEVICE __host__ __device__
#else
#define COXSWAIN_HOST_DEVICE
#endif

#endif  // COXSWAIN_KERNELS_HOST_DEVICE_H_
