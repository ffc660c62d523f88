// Each projection of a block with LoRA, ranks 16 and 64, beside the product alone; and what DoRA
// adds to rank 16.
#include <memory>
#include <vector>

#include "bench/kernels/cuda/harness.h"
#include "kernels/lora/dora.h"
#include "kernels/lora/lora_linear.h"
#include "kernels/products/gemm.h"

namespace coxswain::kernels::bench {
namespace {

constexpr int64_t kRank = 16;  // of DoRA

struct Projection {
  const char* name;
  int64_t in_features;
  std::vector<int64_t> out_features;
};

std::vector<Projection> Projections(const Shape& m) {
  return {{"qkv", m.hidden, {m.query(), m.key(), m.key()}},
          {"o", m.query(), {m.hidden}},
          {"gate_up", m.hidden, {m.intermediate, m.intermediate}},
          {"down", m.intermediate, {m.hidden}}};
}

// A launch keeps them.
using Members = std::shared_ptr<std::vector<LoraMember>>;

Members MembersOf(const Projection& p) {
  auto members = std::make_shared<std::vector<LoraMember>>();
  int64_t column = 0;
  for (const int64_t out : p.out_features) {
    members->push_back({.out_features = out, .column_offset = column});
    column += out;
  }
  return members;
}

LoraLinearSpec Spec(const Projection& p, const Members& members, int64_t rank = kRank) {
  return {.dtype = kBF16,
          .in_features = p.in_features,
          .rank = rank,
          .members = *members,
          .ldy = members->back().column_offset + members->back().out_features,
          .scale = 2.0f};
}

// Of the product and the low-rank ones.
double Flops(const LoraLinearSpec& spec, int64_t rows) {
  return 2.0 * static_cast<double>(rows) *
         static_cast<double>(spec.ldy * spec.in_features + spec.stacked_rank() * spec.in_features +
                             spec.rank * spec.ldy);
}

std::string NameOf(const char* what, const Projection& p, int64_t rank) {
  return std::string(what) + p.name + " r=" + std::to_string(rank);
}

void BenchForward(Bench* bench, const Shape& m, const Projection& p, int64_t rank) {
  const Members members = MembersOf(p);
  const LoraLinearSpec spec = Spec(p, members, rank);
  bench->Time({.name = NameOf("lora forward ", p, rank),
               .extents = Extents(m.tokens, p.in_features) + " -> " + std::to_string(spec.ldy),
               .flops = Flops(spec, m.tokens),
               .make = [=](Memory* memory) -> Launch {
                 LoraLinearForwardArgs args{
                     .spec = spec,
                     .rows = m.tokens,
                     .x = memory->BFloat16(m.tokens * spec.in_features),
                     .weight = memory->BFloat16(spec.ldy * spec.in_features),
                     .a = memory->BFloat16(spec.stacked_rank() * spec.in_features),
                     .h = memory->BFloat16(m.tokens * spec.stacked_rank()),
                     .y = memory->BFloat16(m.tokens * spec.ldy),
                     .workspace = memory->Scratch(LoraLinearForwardWorkspaceBytes(spec, m.tokens))};
                 for (LoraMember& member : *members) {
                   member.b = memory->BFloat16(member.out_features * rank);
                 }
                 return [args, members](Stream* s) { LoraLinearForward(args, s); };
               }});
}

void BenchBackward(Bench* bench, const Shape& m, const Projection& p, int64_t rank) {
  const Members members = MembersOf(p);
  const LoraLinearSpec spec = Spec(p, members, rank);
  bench->Time(
      {.name = NameOf("lora backward ", p, rank),
       .extents = Extents(m.tokens, p.in_features) + " <- " + std::to_string(spec.ldy),
       .flops = Flops(spec, m.tokens) + 2.0 * static_cast<double>(m.tokens * rank * spec.ldy) +
                2.0 * static_cast<double>(m.tokens * spec.stacked_rank() * spec.in_features),
       .make = [=](Memory* memory) -> Launch {
         LoraLinearBackwardArgs args{
             .spec = spec,
             .rows = m.tokens,
             .x = memory->BFloat16(m.tokens * spec.in_features),
             .weight = memory->BFloat16(spec.ldy * spec.in_features),
             .a = memory->BFloat16(spec.stacked_rank() * spec.in_features),
             .h = memory->BFloat16(m.tokens * spec.stacked_rank()),
             .dy = memory->BFloat16(m.tokens * spec.ldy),
             .da = memory->Floats(spec.stacked_rank() * spec.in_features),
             .dx = memory->BFloat16(m.tokens * spec.in_features),
             .workspace = memory->Scratch(LoraLinearBackwardWorkspaceBytes(spec, m.tokens))};
         for (LoraMember& member : *members) {
           member.b = memory->BFloat16(member.out_features * rank);
           member.db = memory->Floats(member.out_features * rank);
         }
         return [args, members](Stream* s) { LoraLinearBackward(args, s); };
       }});
}

void BenchDoraFactors(Bench* bench, const Projection& p) {
  const Members members = MembersOf(p);
  const LoraLinearSpec spec = Spec(p, members);
  const double weight = 2.0 * static_cast<double>(spec.ldy * spec.in_features);
  bench->Time({.name = std::string("dora row_squares ") + p.name,
               .extents = Extents(spec.ldy, spec.in_features),
               .bytes = weight,
               .make = [=](Memory* memory) -> Launch {
                 const DoraRowSquaresArgs args{.dtype = kBF16,
                                               .rows = spec.ldy,
                                               .columns = spec.in_features,
                                               .w = memory->BFloat16(spec.ldy * spec.in_features),
                                               .squares = memory->Floats(spec.ldy)};
                 return [=](Stream* s) { DoraRowSquares(args, s); };
               }});
  bench->Time({.name = std::string("dora factors ") + p.name,
               .extents = Extents(spec.ldy, spec.in_features),
               .bytes = weight,
               .flops = static_cast<double>(spec.stacked_rank()) * weight,
               .make = [=](Memory* memory) -> Launch {
                 DoraFactorsArgs args{
                     .spec = spec,
                     .w = memory->BFloat16(spec.ldy * spec.in_features),
                     .squares = memory->Floats(spec.ldy),
                     .a = memory->BFloat16(spec.stacked_rank() * spec.in_features),
                     .norm = memory->Floats(spec.ldy),
                     .factor = memory->Floats(spec.ldy),
                     .workspace = memory->Scratch(DoraFactorsWorkspaceBytes(spec))};
                 for (LoraMember& member : *members) {
                   member.b = memory->BFloat16(member.out_features * kRank);
                   member.magnitude = memory->BFloat16(member.out_features);
                 }
                 return [args, members](Stream* s) { DoraFactors(args, s); };
               },
               .note = "once an update"});
}

void BenchDora(Bench* bench, const Shape& m, const Projection& p) {
  const Members members = MembersOf(p);
  const LoraLinearSpec spec = Spec(p, members);
  const double output = 2.0 * static_cast<double>(m.tokens * spec.ldy);
  bench->Time({.name = std::string("dora forward ") + p.name,
               .extents = Extents(m.tokens, spec.ldy),
               .bytes = 2 * output,
               .make = [=](Memory* memory) -> Launch {
                 const DoraForwardArgs args{.spec = spec,
                                            .rows = m.tokens,
                                            .u = memory->BFloat16(m.tokens * spec.ldy),
                                            .factor = memory->Floats(spec.ldy),
                                            .bias = memory->BFloat16(spec.ldy),
                                            .y = memory->BFloat16(m.tokens * spec.ldy)};
                 return [args, members](Stream* s) { DoraForward(args, s); };
               }});
  bench->Time({.name = std::string("dora backward ") + p.name,
               .extents = Extents(m.tokens, spec.ldy),
               .bytes = 3 * output,
               .make = [=](Memory* memory) -> Launch {
                 DoraBackwardArgs args{
                     .spec = spec,
                     .rows = m.tokens,
                     .u = memory->BFloat16(m.tokens * spec.ldy),
                     .norm = memory->Floats(spec.ldy),
                     .factor = memory->Floats(spec.ldy),
                     .dy = memory->BFloat16(m.tokens * spec.ldy),
                     .workspace = memory->Scratch(DoraBackwardWorkspaceBytes(spec, m.tokens))};
                 for (LoraMember& member : *members) {
                   member.dmagnitude = memory->Floats(member.out_features);
                 }
                 return [args, members](Stream* s) { DoraBackward(args, s); };
               }});
}

}  // namespace

// Adapters are products of the library too: tuned, as the engine has them.
void BenchLora(Bench* bench) {
  SetGemmTuning(true);
  for (const Shape& m : kShapes) {
    for (const Projection& p : Projections(m)) {
      for (const int64_t rank : {16, 64}) {
        BenchForward(bench, m, p, rank);
        BenchBackward(bench, m, p, rank);
      }
      BenchDoraFactors(bench, p);
      BenchDora(bench, m, p);
    }
  }
  SetGemmTuning(false);
}

}  // namespace coxswain::kernels::bench
