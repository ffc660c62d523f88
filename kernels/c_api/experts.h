/* Of kernels/c_api/c_api.h: route.h, expert_rows.h, grouped_linear.h,
 * grouped_gated_linear.h, grouped_lora.h, router_loss.h and expert_use.h, the ops of a mixture of
 * experts. */
#ifndef COXSWAIN_KERNELS_C_API_EXPERTS_H_
#define COXSWAIN_KERNELS_C_API_EXPERTS_H_

#include "kernels/c_api/types.h"

#ifdef __cplusplus
extern "C" {
#endif

enum coxswain_router_score { COXSWAIN_SOFTMAX = 0, COXSWAIN_SIGMOID = 1 };

typedef struct {
  int32_t score; /* of enum coxswain_router_score */
  int32_t renormalise;
  int64_t tokens, experts, chosen;
  int64_t groups, top_groups; /* of COXSWAIN_SIGMOID; 0: 1 */
  float scale;                /* 0: 1 */
  const float* logits;        /* [tokens, experts] */
  const float* bias;          /* [experts], COXSWAIN_SIGMOID alone; null: none; forward only */
  const int32_t* padding;     /* [tokens], negative: padding; null: no row is; forward only */
  int32_t* ids;               /* [tokens, chosen]; backward reads them */
  float* weights;             /* [tokens, chosen]; forward only */
  const float* dweights;      /* [tokens, chosen]; backward only */
  float* dlogits;             /* [tokens, experts]; backward only */
} coxswain_route_args;
int coxswain_route_forward(const coxswain_route_args* args, void* stream);
int coxswain_route_backward(const coxswain_route_args* args, void* stream);

typedef struct {
  int64_t tokens, experts, chosen;
  const int32_t* ids; /* [tokens, chosen]; -1: left out */
  int32_t* order;     /* [tokens chosen], the pair at each place; -1 behind the last */
  int32_t* places;    /* [tokens, chosen], the place of each pair; -1: left out */
  int32_t* offsets;   /* [experts + 1] */
  int32_t* counts;    /* [experts] */
  coxswain_workspace workspace;
} coxswain_sort_by_expert_args;
int64_t coxswain_sort_by_expert_workspace_bytes(const coxswain_sort_by_expert_args* args);
int coxswain_sort_by_expert(const coxswain_sort_by_expert_args* args, void* stream);

typedef struct {
  int32_t dtype;
  int64_t tokens, chosen, hidden;
  const int32_t* order;  /* [tokens chosen]; forward only */
  const int32_t* places; /* [tokens, chosen] */
  const void* x;         /* [tokens, hidden]; forward only */
  void* rows;            /* [tokens chosen, hidden]; forward only */
  const void* drows;     /* [tokens chosen, hidden]; backward only */
  void* dx;              /* [tokens, hidden]; backward only */
} coxswain_dispatch_args;
int coxswain_dispatch_forward(const coxswain_dispatch_args* args, void* stream);
int coxswain_dispatch_backward(const coxswain_dispatch_args* args, void* stream);

typedef struct {
  int32_t dtype;
  int64_t tokens, chosen, hidden;
  const int32_t* order;  /* [tokens chosen]; backward only */
  const int32_t* places; /* [tokens, chosen] */
  const float* weights;  /* [tokens, chosen] */
  const void* rows;      /* [tokens chosen, hidden] */
  void* y;               /* [tokens, hidden]; forward only */
  const void* dy;        /* [tokens, hidden]; backward only */
  void* drows;           /* [tokens chosen, hidden], may be rows; null: not wanted */
  float* dweights;       /* [tokens, chosen]; null: not wanted */
} coxswain_combine_args;
int coxswain_combine_forward(const coxswain_combine_args* args, void* stream);
int coxswain_combine_backward(const coxswain_combine_args* args, void* stream);

typedef struct {
  int32_t dtype;
  int64_t rows, columns;
  const void* logits; /* [rows] */
  const void* x;      /* [rows, columns] */
  void* y;            /* [rows, columns], added to; forward only */
  const void* dy;     /* [rows, columns]; backward only */
  void* dx;           /* [rows, columns], may be x; null: not wanted; backward only */
  void* dlogits;      /* [rows], may be logits; null: not wanted; backward only */
} coxswain_sigmoid_gate_args;
int coxswain_sigmoid_gate_forward(const coxswain_sigmoid_gate_args* args, void* stream);
int coxswain_sigmoid_gate_backward(const coxswain_sigmoid_gate_args* args, void* stream);

typedef struct {
  int32_t dtype, grad_dtype;
  int64_t rows, experts, in_features, out_features;
  int32_t accumulate;     /* weight gradient: added to dweight and dbias */
  const int32_t* offsets; /* [experts + 1] */
  const void* x;          /* [rows, in_features]; forward and weight gradient */
  const void* weight;     /* [experts, out_features, in_features]; forward and input gradient */
  const void* bias;       /* [experts, out_features]; null: none; forward only */
  void* y;                /* [rows, out_features]; forward only */
  const void* dy;         /* [rows, out_features]; both gradients */
  void* dx;               /* [rows, in_features]; input gradient only */
  void* dweight;          /* as weight, of grad_dtype; null: not wanted; weight gradient only */
  void* dbias;            /* as bias, of grad_dtype; null: not wanted; weight gradient only */
} coxswain_grouped_linear_args;
int coxswain_grouped_linear_forward(const coxswain_grouped_linear_args* args, void* stream);
int coxswain_grouped_linear_input_gradient(const coxswain_grouped_linear_args* args, void* stream);
int coxswain_grouped_linear_weight_gradient(const coxswain_grouped_linear_args* args, void* stream);

typedef struct {
  int32_t dtype;
  int64_t rows, experts, in_features, intermediate;
  float alpha, limit;     /* of the clamped gate; limit 0: SwiGLU */
  const int32_t* offsets; /* [experts + 1] */
  const void* x;          /* [rows, in_features] */
  const void* weight;     /* [experts, 2 intermediate, in_features] */
  const void* bias;       /* [experts, 2 intermediate]; null: none */
  void* gate_up;          /* [rows, 2 intermediate] */
  int32_t leaves_gate_up; /* gate_up may be left with any value */
  void* y;                /* [rows, intermediate] */
} coxswain_grouped_gated_linear_args;
int coxswain_grouped_gated_linear_forward(const coxswain_grouped_gated_linear_args* args,
                                          void* stream);

typedef struct {
  int32_t dtype, grad_dtype;
  int64_t rows, experts, in_features, out_features, rank;
  float scale;
  const int32_t* offsets;       /* [experts + 1] */
  const void* x;                /* [rows, in_features] */
  const void* a;                /* [experts, rank, in_features] */
  const void* b;                /* [experts, out_features, rank] */
  void* h;                      /* [rows, rank], written by forward, read by backward */
  void* y;                      /* [rows, out_features], added to; forward only */
  const void* dy;               /* [rows, out_features]; backward only */
  void* da;                     /* as a, of grad_dtype, added to; backward only */
  void* db;                     /* as b, of grad_dtype, added to; backward only */
  void* dx;                     /* [rows, in_features], added to; null: not wanted */
  coxswain_workspace workspace; /* backward only */
} coxswain_grouped_lora_args;
int coxswain_grouped_lora_forward(const coxswain_grouped_lora_args* args, void* stream);
int64_t coxswain_grouped_lora_backward_workspace_bytes(const coxswain_grouped_lora_args* args);
int coxswain_grouped_lora_backward(const coxswain_grouped_lora_args* args, void* stream);

typedef struct {
  int64_t tokens, experts, chosen;
  int32_t accumulate;           /* sums: the rows are added to the pool */
  const float* logits;          /* [tokens, experts]; sums and gradient */
  const int32_t* ids;           /* [tokens, chosen]; -1 in a row: padding; sums and gradient */
  double* sums;                 /* [2 experts + 2]; written by sums alone */
  double* losses;               /* [2]: balance, z; loss only */
  const float* factors;         /* [2], of balance and z; gradient only */
  float* dlogits;               /* [tokens, experts], accumulated; gradient only */
  coxswain_workspace workspace; /* sums only */
} coxswain_router_loss_args;
int64_t coxswain_router_loss_sums_workspace_bytes(const coxswain_router_loss_args* args);
int coxswain_router_loss_sums(const coxswain_router_loss_args* args, void* stream);
int coxswain_router_loss(const coxswain_router_loss_args* args, void* stream);
int coxswain_router_loss_gradient(const coxswain_router_loss_args* args, void* stream);

typedef struct {
  int32_t score; /* of enum coxswain_router_score */
  int64_t tokens, experts, chosen;
  const float* logits;   /* [tokens, experts] */
  const int32_t* ids;    /* [tokens, chosen]; -1 in a row: padding */
  const int32_t* counts; /* [experts], of coxswain_sort_by_expert */
  double* sums;          /* [experts + 2], added to */
  coxswain_workspace workspace;
} coxswain_expert_use_args;
int64_t coxswain_expert_use_workspace_bytes(const coxswain_expert_use_args* args);
int coxswain_expert_use(const coxswain_expert_use_args* args, void* stream);

typedef struct {
  int64_t routers, experts;
  int64_t stride;       /* doubles from the counts of a router to those of the next */
  const double* counts; /* [routers, experts] */
  const float* rate;    /* one, in device memory */
  const int32_t* skip;  /* one, in device memory; not 0: nothing moves */
  float* bias;          /* [routers, experts] */
} coxswain_balance_bias_args;
int coxswain_balance_bias(const coxswain_balance_bias_args* args, void* stream);

#ifdef __cplusplus
}
#endif

#endif /* COXSWAIN_KERNELS_C_API_EXPERTS_H_ */
