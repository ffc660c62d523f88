// Owners of streams, events, graphs and pinned arrays of kernels/device.h.
#ifndef COXSWAIN_WORKER_ENGINE_DEVICE_DEVICE_HANDLES_H_
#define COXSWAIN_WORKER_ENGINE_DEVICE_DEVICE_HANDLES_H_

#include <chrono>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <thread>

#include "kernels/device.h"

namespace coxswain::engine {

struct DeviceDeleter {
  void operator()(kernels::Stream* stream) const { kernels::DestroyStream(stream); }
  void operator()(kernels::Event* event) const { kernels::DestroyEvent(event); }
  void operator()(kernels::Graph* graph) const { kernels::DestroyGraph(graph); }
};
using GraphHandle = std::unique_ptr<kernels::Graph, DeviceDeleter>;

class StreamHandle {
 public:
  StreamHandle() : stream_(kernels::CreateStream()) {}
  kernels::Stream* get() const { return stream_.get(); }

 private:
  std::unique_ptr<kernels::Stream, DeviceDeleter> stream_;
};

class EventHandle {
 public:
  EventHandle() : event_(kernels::CreateEvent()) {}
  kernels::Event* get() const { return event_.get(); }
  void Record(kernels::Stream* stream) const { kernels::RecordEvent(event_.get(), stream); }
  // Polls, so that no driver call blocks. Throws the device's error.
  void Wait() const {
    while (!kernels::EventReached(event_.get())) {
      std::this_thread::sleep_for(std::chrono::microseconds(20));
    }
  }

 private:
  std::unique_ptr<kernels::Event, DeviceDeleter> event_;
};

// A list of at most `capacity` elements in memory that copies to the device without blocking.
template <typename T>
class PinnedArray {
 public:
  explicit PinnedArray(int64_t capacity)
      : data_(static_cast<T*>(
            kernels::AllocatePinnedMemory(capacity * static_cast<int64_t>(sizeof(T))))),
        capacity_(capacity) {}

  void clear() { size_ = 0; }
  void push_back(T value) {
    if (size_ == capacity_) throw std::length_error("PinnedArray is full");
    data_.get()[size_++] = value;
  }
  int64_t size() const { return size_; }
  T* data() const { return data_.get(); }
  T& operator[](int64_t i) const { return data_.get()[i]; }

  void CopyTo(T* device, kernels::Stream* stream) const {
    kernels::CopyMemory(device, data_.get(), size_ * static_cast<int64_t>(sizeof(T)), stream);
  }

 private:
  struct Free {
    void operator()(T* data) const { kernels::FreePinnedMemory(data); }
  };
  std::unique_ptr<T, Free> data_;
  int64_t capacity_ = 0, size_ = 0;
};

}  // namespace coxswain::engine

#endif  // COXSWAIN_WORKER_ENGINE_DEVICE_DEVICE_HANDLES_H_
