// The SDPA graphs of cudnn-frontend: Q, K and V, and dQ, dK and dV, are strided views, so that
// nothing is copied or transposed.
//
// Deterministic backward: cuDNN keeps one partial dQ per block of keys in its workspace, 4 T nq hd
// bytes times length / 128 (length / 256 for heads wider than 64), and sums them in order. The
// other one adds with atomics. Source: NVIDIA, cuDNN frontend 1.12, docs/operations/Attention.md.
#include "kernels/cuda/attention/cudnn_attention.h"

#include <cudnn_frontend.h>

#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "kernels/cuda/stream.h"

namespace coxswain::kernels::cuda {
namespace {

namespace fe = cudnn_frontend;
using Tensor = std::shared_ptr<fe::graph::Tensor_attributes>;

enum Uid : int64_t { kQ = 1, kK, kV, kOut, kLse, kDout, kDq, kDk, kDv };

struct Shape {
  AttentionSpec spec;
  int64_t documents, length;

  int64_t out_row() const { return spec.num_heads * spec.head_dim; }
};

// [documents, heads, length, hd] in rows of `row` elements.
fe::graph::Tensor_attributes View(const Shape& shape, Uid uid, int64_t heads, int64_t row) {
  return fe::graph::Tensor_attributes()
      .set_uid(uid)
      .set_dim({shape.documents, heads, shape.length, shape.spec.head_dim})
      .set_stride({shape.length * row, shape.spec.head_dim, row, 1})
      .set_data_type(fe::DataType_t::BFLOAT16);
}

fe::graph::Tensor_attributes Lse(const Shape& shape) {
  const int64_t heads = shape.spec.num_heads, length = shape.length;
  return fe::graph::Tensor_attributes()
      .set_uid(kLse)
      .set_dim({shape.documents, heads, length, 1})
      .set_stride({heads * length, length, 1, 1})
      .set_data_type(fe::DataType_t::FLOAT);
}

void SetOutput(const Tensor& tensor, const fe::graph::Tensor_attributes& like) {
  tensor->set_output(true)
      .set_uid(like.get_uid())
      .set_dim(like.get_dim())
      .set_stride(like.get_stride())
      .set_data_type(like.get_data_type());
}

std::unique_ptr<fe::graph::Graph> NewGraph() {
  auto graph = std::make_unique<fe::graph::Graph>();
  graph->set_io_data_type(fe::DataType_t::BFLOAT16)
      .set_intermediate_data_type(fe::DataType_t::FLOAT)
      .set_compute_data_type(fe::DataType_t::FLOAT);
  return graph;
}

// cuDNN keeps key j of query i when j <= i and j + left bound > i: our window.
template <typename Attributes>
void SetMask(const Shape& shape, Attributes* attributes) {
  attributes->set_attn_scale(shape.spec.scale);
  attributes->set_causal_mask(true);
  if (shape.spec.window > 0 && shape.spec.window < shape.length) {
    attributes->set_diagonal_band_left_bound(static_cast<int>(shape.spec.window));
  }
}

std::unique_ptr<fe::graph::Graph> ForwardGraph(const Shape& shape) {
  const AttentionSpec& spec = shape.spec;
  auto graph = NewGraph();
  const Tensor q = graph->tensor(View(shape, kQ, spec.num_heads, QueryRow(spec)));
  const Tensor k = graph->tensor(View(shape, kK, spec.num_kv_heads, KeyRow(spec)));
  const Tensor v = graph->tensor(View(shape, kV, spec.num_kv_heads, ValueRow(spec)));
  auto attributes = fe::graph::SDPA_attributes().set_name("attention").set_is_inference(false);
  SetMask(shape, &attributes);
  const auto [out, lse] = graph->sdpa(q, k, v, std::move(attributes));
  SetOutput(out, View(shape, kOut, spec.num_heads, shape.out_row()));
  SetOutput(lse, Lse(shape));
  return graph;
}

std::unique_ptr<fe::graph::Graph> BackwardGraph(const Shape& shape) {
  const AttentionSpec& spec = shape.spec;
  auto graph = NewGraph();
  const Tensor q = graph->tensor(View(shape, kQ, spec.num_heads, QueryRow(spec)));
  const Tensor k = graph->tensor(View(shape, kK, spec.num_kv_heads, KeyRow(spec)));
  const Tensor v = graph->tensor(View(shape, kV, spec.num_kv_heads, ValueRow(spec)));
  const Tensor out = graph->tensor(View(shape, kOut, spec.num_heads, shape.out_row()));
  const Tensor dout = graph->tensor(View(shape, kDout, spec.num_heads, shape.out_row()));
  const Tensor lse = graph->tensor(Lse(shape));
  auto attributes = fe::graph::SDPA_backward_attributes()
                        .set_name("attention_backward")
                        .set_deterministic_algorithm(spec.deterministic);
  SetMask(shape, &attributes);
  const auto [dq, dk, dv] = graph->sdpa_backward(q, k, v, out, dout, lse, std::move(attributes));
  SetOutput(dq, View(shape, kDq, spec.num_heads, QueryRow(spec)));
  SetOutput(dk, View(shape, kDk, spec.num_kv_heads, KeyRow(spec)));
  SetOutput(dv, View(shape, kDv, spec.num_kv_heads, ValueRow(spec)));
  return graph;
}

// Empty when the graph has a plan within the budget, else why not.
std::string BuildPlan(fe::graph::Graph* graph, int64_t budget, cudnnHandle_t handle) {
  fe::error_t error = graph->validate();
  if (error.is_good()) error = graph->build_operation_graph(handle);
  if (error.is_good()) error = graph->create_execution_plans({fe::HeurMode_t::A});
  if (error.is_good() && budget > 0) graph->deselect_workspace_greater_than(budget);
  if (error.is_good()) error = graph->check_support(handle);
  if (error.is_good()) error = graph->build_plans(handle, fe::BuildPlanPolicy_t::HEURISTICS_CHOICE);
  if (error.is_bad()) return error.get_message();
  const int64_t bytes = graph->get_workspace_size();
  if (budget > 0 && bytes > budget) {
    return "workspace of " + std::to_string(bytes) + " bytes exceeds " + std::to_string(budget);
  }
  return "";
}

std::string Mebibytes(int64_t bytes) {
  return std::to_string((bytes + (int64_t{1} << 20) - 1) >> 20) + " MiB";
}

using Key = std::tuple<int64_t, int64_t, int64_t, int64_t, int64_t, int64_t, int64_t, float, bool,
                       int64_t, int64_t>;
Key ShapeKey(const AttentionSpec& spec, int64_t documents, int64_t length) {
  return {spec.num_heads,     spec.num_kv_heads, spec.head_dim, QueryRow(spec),
          KeyRow(spec),       ValueRow(spec),    spec.window,   spec.scale,
          spec.deterministic, documents,         length};
}

}  // namespace

class CudnnAttention {
 public:
  Shape shape;
  std::unique_ptr<fe::graph::Graph> forward, backward;
  int64_t forward_bytes = 0, backward_bytes = 0;
  std::string line;
};

namespace {

// A shape's plan under a budget, another of which may give another algorithm.
using Built = std::tuple<Key, int64_t, const CudnnAttention*>;

// Neither is ever destroyed: at exit the library's own context may be gone before our statics.
std::vector<Built>& AllBuilt() {
  static auto* built = new std::vector<Built>;
  return *built;
}

// What each shape runs on: the plan of the budget that it was prepared with last.
std::map<Key, const CudnnAttention*>& Chosen() {
  static auto* chosen = new std::map<Key, const CudnnAttention*>;
  return *chosen;
}

// Null when the shape has no plan within the budget; *why says what it lacks.
const CudnnAttention* Build(const Shape& shape, int64_t workspace_budget, Stream* stream,
                            std::string* why) {
  auto built = std::make_unique<CudnnAttention>();
  built->shape = shape;
  built->forward = ForwardGraph(shape);
  built->backward = BackwardGraph(shape);
  for (fe::graph::Graph* graph : {built->forward.get(), built->backward.get()}) {
    const std::string refusal = BuildPlan(graph, workspace_budget, stream->cudnn());
    if (!refusal.empty()) {
      *why = std::string("cuDNN has no ") +
             (graph == built->forward.get() ? "forward" : "backward") + " plan (" + refusal + ")";
      return nullptr;
    }
  }
  built->forward_bytes = built->forward->get_workspace_size();
  built->backward_bytes = built->backward->get_workspace_size();
  built->line = "cuDNN for " + std::to_string(shape.documents) + " x " +
                std::to_string(shape.length) + ", forward " + Mebibytes(built->forward_bytes) +
                ", " + (shape.spec.deterministic ? "deterministic" : "atomic") + " backward " +
                Mebibytes(built->backward_bytes);
  return built.release();
}

// cudnn-frontend stores pointers to its own frame in the map: every call gets a fresh one.
void Execute(const fe::graph::Graph& graph, std::unordered_map<int64_t, void*> tensors,
             const Workspace& workspace, Stream* stream, const char* op) {
  if (stream == nullptr) throw std::invalid_argument(std::string(op) + ": cuDNN needs a stream");
  fe::error_t error = graph.execute(stream->cudnn(), tensors, workspace.data);
  if (error.is_bad()) throw DeviceError(std::string(op) + ": " + error.get_message(), false);
}

// Of an array that the graph only reads.
void* Read(const void* data) { return const_cast<void*>(data); }

}  // namespace

bool CudnnAttentionSupports(const AttentionSpec& spec) {
  return spec.dtype == DType::kBFloat16 && spec.head_dim % 8 == 0 && spec.head_dim <= 256 &&
         ValueDim(spec) == spec.head_dim && QueryRow(spec) % 8 == 0 && KeyRow(spec) % 8 == 0 &&
         ValueRow(spec) % 8 == 0 && spec.softcap == 0.0f && !spec.sinks;
}

const CudnnAttention* PrepareCudnnAttention(const AttentionSpec& spec, int64_t documents,
                                            int64_t length, int64_t workspace_budget,
                                            Stream* stream, std::string* line) {
  const Key shape = ShapeKey(spec, documents, length);
  const CudnnAttention* plan = nullptr;
  for (const auto& [of, budget, built] : AllBuilt()) {
    if (of == shape && budget == workspace_budget) plan = built;
  }
  if (plan == nullptr) {
    plan = Build({.spec = spec, .documents = documents, .length = length}, workspace_budget, stream,
                 line);
    if (plan != nullptr) AllBuilt().emplace_back(shape, workspace_budget, plan);
  }
  if (plan != nullptr) *line = plan->line;
  Chosen()[shape] = plan;
  return plan;
}

const CudnnAttention* FindCudnnAttention(const AttentionSpec& spec, int64_t documents,
                                         int64_t length) {
  if (!CudnnAttentionSupports(spec)) return nullptr;
  const auto found = Chosen().find(ShapeKey(spec, documents, length));
  return found == Chosen().end() ? nullptr : found->second;
}

int64_t CudnnAttentionForwardWorkspaceBytes(const CudnnAttention& attention) {
  return attention.forward_bytes;
}

int64_t CudnnAttentionBackwardWorkspaceBytes(const CudnnAttention& attention) {
  return attention.backward_bytes;
}

void CudnnAttentionForward(const CudnnAttention& attention, const AttentionForwardArgs& args,
                           Stream* stream) {
  Execute(*attention.forward,
          {{kQ, Read(args.in.q)},
           {kK, Read(args.in.k)},
           {kV, Read(args.in.v)},
           {kOut, args.out},
           {kLse, args.lse}},
          args.workspace, stream, "AttentionForward");
}

void CudnnAttentionBackward(const CudnnAttention& attention, const AttentionBackwardArgs& args,
                            Stream* stream) {
  Execute(*attention.backward,
          {{kQ, Read(args.in.q)},
           {kK, Read(args.in.k)},
           {kV, Read(args.in.v)},
           {kOut, Read(args.out)},
           {kDout, Read(args.dout)},
           {kLse, const_cast<float*>(args.lse)},
           {kDq, args.gradients.q},
           {kDk, args.gradients.k},
           {kDv, args.gradients.v}},
          args.workspace, stream, "AttentionBackward");
}

}  // namespace coxswain::kernels::cuda
