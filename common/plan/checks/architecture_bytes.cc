#include "common/plan/checks/architecture_bytes.h"

#include <cstddef>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "common/model/op_fields.h"
#include "common/status_macros.h"

namespace coxswain::plan {
namespace {

// Appends fields to the lists of a message.
class Writer {
 public:
  explicit Writer(v1::PlainOp* out) : out_(out) {}

  template <typename T>
  void All(const T& whole) {
    std::apply([this](const auto&... field) { (One(field), ...); }, model::Fields(whole));
  }

 private:
  void One(double real) { out_->add_reals(real); }
  void One(const std::string& name) { out_->add_names(name); }
  void One(const model::Row& row) {
    v1::Row* r = out_->add_rows();
    r->set_layer(row.layer);
    r->set_name(row.name);
  }
  void One(const std::vector<model::LinearMember>& members) {
    One(static_cast<int64_t>(members.size()));
    for (const model::LinearMember& member : members) All(member);
  }
  template <typename T>
  void One(const T& field) {
    if constexpr (std::is_integral_v<T> || std::is_enum_v<T>) {
      out_->add_numbers(static_cast<int64_t>(field));
    } else {
      All(field);
    }
  }

  v1::PlainOp* out_;
};

// Takes them out again in the same order.
class Reader {
 public:
  explicit Reader(const v1::PlainOp& in) : in_(in) {}

  template <typename T>
  void All(T* whole) {
    std::apply([this](auto&... field) { (One(&field), ...); }, model::Fields(*whole));
  }

  // Whether the message had all fields and no more.
  bool ended() const {
    return !missed_ && number_ == in_.numbers_size() && real_ == in_.reals_size() &&
           row_ == in_.rows_size() && name_ == in_.names_size();
  }

 private:
  bool Has(int at, int size) {
    missed_ |= at >= size;
    return at < size;
  }

  void One(double* real) {
    if (Has(real_, in_.reals_size())) *real = in_.reals(real_++);
  }
  void One(std::string* name) {
    if (Has(name_, in_.names_size())) *name = in_.names(name_++);
  }
  void One(model::Row* row) {
    if (!Has(row_, in_.rows_size())) return;
    *row = {in_.rows(row_).layer(), in_.rows(row_).name()};
    ++row_;
  }
  void One(std::vector<model::LinearMember>* members) {
    int64_t count = 0;
    One(&count);
    for (int64_t i = 0; i < count && !missed_; ++i) All(&members->emplace_back());
  }
  template <typename T>
  void One(T* field) {
    if constexpr (std::is_integral_v<T> || std::is_enum_v<T>) {
      if (Has(number_, in_.numbers_size())) *field = static_cast<T>(in_.numbers(number_++));
    } else {
      All(field);
    }
  }

  const v1::PlainOp& in_;
  int number_ = 0, real_ = 0, row_ = 0, name_ = 0;
  bool missed_ = false;
};

void OpToProto(const model::PlainOp& op, v1::PlainOp* out) {
  out->set_kind(static_cast<uint32_t>(op.index()));
  std::visit([out](const auto& plain) { Writer(out).All(plain); }, op);
}

template <size_t kKind = 0>
absl::StatusOr<model::PlainOp> OpFromProto(const v1::PlainOp& in) {
  if constexpr (kKind == std::variant_size_v<model::PlainOp>) {
    return absl::InvalidArgumentError(
        absl::StrCat("plan: an op of kind ", in.kind(), ", which this build does not have"));
  } else {
    if (in.kind() != kKind) return OpFromProto<kKind + 1>(in);
    std::variant_alternative_t<kKind, model::PlainOp> op;
    Reader reader(in);
    reader.All(&op);
    if (reader.ended()) return op;
    return absl::InvalidArgumentError(
        absl::StrCat("plan: an op of kind ", in.kind(), " has other fields than this build's"));
  }
}

void TensorToProto(const model::TensorSpec& tensor, v1::TensorSpec* out) {
  out->set_name(tensor.name);
  out->set_kind(static_cast<uint32_t>(tensor.kind));
  out->set_rows(tensor.rows);
  out->set_cols(tensor.cols);
  out->set_batch(tensor.batch);
  out->set_reach(static_cast<uint32_t>(tensor.reach));
  out->set_packed(tensor.packed);
  for (const model::RowRange& range : tensor.file_rows) {
    v1::RowRange* r = out->add_file_rows();
    r->set_begin(range.begin);
    r->set_count(range.count);
  }
  for (const model::FileMember& member : tensor.members) {
    v1::FileMember* m = out->add_members();
    m->set_name(member.name);
    m->set_row(member.row);
    m->set_rows(member.rows);
    m->set_first(member.first);
    m->set_step(member.step);
    m->set_transposed(member.transposed);
  }
}

model::TensorSpec TensorFromProto(const v1::TensorSpec& in) {
  model::TensorSpec tensor{.name = in.name(),
                           .kind = static_cast<model::Kind>(in.kind()),
                           .rows = in.rows(),
                           .cols = in.cols(),
                           .batch = in.batch(),
                           .reach = static_cast<model::Reach>(in.reach()),
                           .packed = in.packed()};
  for (const v1::RowRange& r : in.file_rows()) tensor.file_rows.push_back({r.begin(), r.count()});
  for (const v1::FileMember& m : in.members()) {
    tensor.members.push_back({m.name(), m.row(), m.rows(), m.first(), m.step(), m.transposed()});
  }
  return tensor;
}

}  // namespace

void ArchitectureToProto(const model::Architecture& model, v1::Architecture* out) {
  for (const model::Block& block : model.blocks) {
    v1::Block* b = out->add_blocks();
    for (const model::TensorSpec& tensor : block.tensors) TensorToProto(tensor, b->add_tensors());
    for (const model::PlainOp& op : block.ops) OpToProto(op, b->add_ops());
  }
  const model::Outside& outside = model.outside;
  out->set_layers(outside.layers);
  TensorToProto(outside.embedding, out->mutable_embedding());
  TensorToProto(outside.head, out->mutable_head());
  for (const model::TensorSpec& tensor : outside.final_norm) {
    TensorToProto(tensor, out->add_final_norm());
  }
  OpToProto(outside.norm, out->mutable_norm());
  out->set_tied(outside.tied);
}

absl::StatusOr<model::Architecture> ArchitectureFromProto(const v1::Architecture& in) {
  model::Architecture model;
  for (const v1::Block& b : in.blocks()) {
    model::Block& block = model.blocks.emplace_back();
    for (const v1::TensorSpec& tensor : b.tensors()) {
      block.tensors.push_back(TensorFromProto(tensor));
    }
    for (const v1::PlainOp& message : b.ops()) {
      ASSIGN_OR_RETURN(model::PlainOp op, OpFromProto(message));
      block.ops.push_back(std::move(op));
    }
  }
  model::Outside& outside = model.outside;
  outside.layers = in.layers();
  outside.embedding = TensorFromProto(in.embedding());
  outside.head = TensorFromProto(in.head());
  for (const v1::TensorSpec& tensor : in.final_norm()) {
    outside.final_norm.push_back(TensorFromProto(tensor));
  }
  ASSIGN_OR_RETURN(const model::PlainOp norm, OpFromProto(in.norm()));
  if (!std::holds_alternative<model::NormOp>(norm)) {
    return absl::InvalidArgumentError("plan: the final norm is an op of another kind");
  }
  outside.norm = std::get<model::NormOp>(norm);
  outside.tied = in.tied();
  return model;
}

}  // namespace coxswain::plan
