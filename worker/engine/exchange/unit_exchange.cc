#include "worker/engine/exchange/unit_exchange.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "worker/engine/memory/quantized_weights.h"
#include "worker/engine/memory/written_gradients.h"

namespace coxswain::engine {

using comm::Communicator;

std::string ExchangeScript::Key() const {
  std::string key =
      absl::StrCat(start.stale ? " gather" : "", start.embedding ? " but the embedding" : "",
                   last_micro_step ? " reduce" : "", codes && !start.scales ? " scales" : "");
  for (const Residency::Slot& slot : start.slots) {
    absl::StrAppend(&key, " ", slot.unit, slot.current ? "" : "*", slot.codes ? "c" : "");
  }
  return key;
}

UnitExchange::UnitExchange(const plan::Plan& plan, const ParameterLayout& layout,
                           const Buffers& buffers, kernels::Stream* compute)
    : plan_(plan),
      layout_(layout),
      buffers_(buffers),
      compute_(compute),
      owned_(plan.overlap && (plan.world_size() > 1 || layout.map.weight_slot > 0)
                 ? kernels::CreateStream()
                 : nullptr),
      comm_(owned_ != nullptr ? owned_.get() : compute),
      fetches_(plan::UnitFetches(plan, layout.map)),
      codes_(plan, layout, buffers),
      flats_of_unit_(fetches_.size()),
      extents_(plan),
      arrived_(fetches_.size()) {
  for (size_t f = 0; f < layout.map.flats.size(); ++f) {
    flats_of_unit_[static_cast<size_t>(layout.map.flats[f].unit)].push_back(f);
    const plan::Flat& flat = layout.map.flats[f];
    accumulated_.push_back(Beside(WrittenElements(plan, layout.map, flat), flat.elements));
  }
  for (size_t i = 0; i < plan.parameters.size(); ++i) {
    if (model::IsEmbedding(plan.parameters[i])) owned_embedding_ = layout.owned[i];
  }
  residency_ = Nothing();
}

Residency UnitExchange::Nothing() const {
  Residency nothing;
  nothing.stale = plan_.shard > 1;
  nothing.slots.resize(static_cast<size_t>(plan_.weight_slots));
  return nothing;
}

void UnitExchange::Connect(comm::Collectives* group) {
  group_ = group;
  residency_ = Nothing();
}

void UnitExchange::Updated() {
  residency_.stale = plan_.shard > 1;
  residency_.embedding = FetchesEmbeddingEarly() && group_ != nullptr;
  for (Residency::Slot& slot : residency_.slots) slot.current = false;
  if (codes_.trained()) residency_.scales = false;
}

Residency UnitExchange::After(const ExchangeScript& script) const {
  Residency end;
  end.stale = false;
  end.scales = script.start.scales;
  end.slots = script.start.slots;
  if (layout_.map.weight_slot == 0) return end;
  for (const int32_t unit : script.visits) {
    if (IsSlotted(unit)) end.slots[SlotOf(unit)] = {unit, true, script.codes};
    if (script.codes && HasCodes(unit)) end.scales = true;
  }
  return end;
}

void UnitExchange::SumDoubles(double* data, int64_t n) {
  if (group_ == nullptr || !status_.ok()) return;
  Keep(group_->AllReduceSum(Communicator::kWorld, data, n, compute_));
}

void UnitExchange::GatherFloats(float* data, int64_t n) {
  if (group_ == nullptr || !status_.ok()) return;
  Keep(group_->AllGather(Communicator::kWorld, data + group_->rank() * n, data, n,
                         kernels::DType::kFloat32, compute_));
}

bool UnitExchange::HasCodes(int32_t unit) const {
  const std::vector<size_t>& flats = flats_of_unit_[static_cast<size_t>(unit)];
  return std::any_of(flats.begin(), flats.end(),
                     [this](size_t f) { return layout_.map.flats[f].coded; });
}

void UnitExchange::FindScales() {
  if (!status_.ok()) return;
  codes_.FindAmaxes(comm_);
  if (group_ == nullptr) return codes_.FindScales(comm_);
  Keep(group_->AllGather(Communicator::kShard, codes_.OwnAmaxes(), codes_.AllAmaxes(),
                         codes_.AmaxesOfRank(), kernels::DType::kFloat32, comm_));
  codes_.FindScales(comm_);
}

void UnitExchange::Fetch(int32_t unit, const plan::Lacking& lacking, bool codes) {
  const plan::UnitFetch& fetch = FetchOf(unit);
  for (const plan::GatherPart& part : fetch.gathers) {
    if (!plan::UnitFetch::Gathers(part, lacking)) continue;
    if (codes && layout_.map.flats[part.flat].coded) {
      GatherCodes(part.flat);
    } else {
      Gather(part.flat);
    }
  }
  // Before ranks have met there is nothing to dequantise of what lies with others.
  if (!lacking.slot || (plan_.zero == 3 && group_ == nullptr)) return;
  for (const size_t i : fetch.dequantized) Dequantize(plan_, layout_, buffers_, i, comm_);
}

void UnitExchange::Gather(size_t f) {
  if (!status_.ok()) return;
  const plan::Flat& flat = layout_.map.flats[f];
  const FlatMemory& memory = buffers_.flats[f];
  if (group_ == nullptr) {
    if (!flat.coded) return;
    return RepeatOwn(f, memory.owned, flat.owned * kernels::DTypeBytes(memory.dtype));
  }
  if (flat.quantized()) return GatherPacked(f);
  Keep(group_->AllGather(Communicator::kShard, memory.owned, memory.values, flat.owned,
                         memory.dtype, comm_));
}

void UnitExchange::RepeatOwn(size_t f, const void* own, int64_t bytes) {
  for (int32_t rank = 0; rank < plan_.shard; ++rank) {
    char* const part = static_cast<char*>(buffers_.flats[f].values) + rank * bytes;
    if (part != own) kernels::CopyMemory(part, own, bytes, comm_);
  }
}

void UnitExchange::GatherPacked(size_t f) {
  const plan::Flat& flat = layout_.map.flats[f];
  const FlatMemory& memory = buffers_.flats[f];
  const int64_t owned = flat.packed / plan_.shard;
  const auto gather = [&](const char* own, char* all, int64_t bytes) {
    if (bytes == 0 || !status_.ok()) return;
    Keep(group_->AllGatherBytes(Communicator::kShard, own, all, bytes, comm_));
  };
  gather(memory.owned_packed.codes, memory.packed.codes,
         plan::StorageBytes(flat.storage.weights, owned));
  gather(memory.owned_packed.scales, memory.packed.scales,
         plan::ScaleBytes(flat.storage.weights, owned));
}

void UnitExchange::GatherCodes(size_t f) {
  if (!status_.ok()) return;
  const int64_t owned = layout_.map.flats[f].owned;
  codes_.Quantize(f, comm_);
  if (group_ == nullptr) return RepeatOwn(f, codes_.OwnCodes(f), owned);
  Keep(group_->AllGatherBytes(Communicator::kShard, codes_.OwnCodes(f), buffers_.flats[f].codes,
                              owned, comm_));
}

void UnitExchange::Reduce(size_t f, bool last_micro_step) {
  const plan::Flat& flat = layout_.map.flats[f];
  const FlatMemory& memory = buffers_.flats[f];
  if (flat.gradient_slotted()) {
    if (status_.ok()) {
      Keep(group_->ReduceScatterAdd(Communicator::kShard, memory.gradient,
                                    static_cast<float*>(memory.reduced), flat.owned,
                                    memory.gradient_dtype, comm_));
    }
  } else if (plan_.shard > 1 && status_.ok()) {
    char* const own = static_cast<char*>(memory.gradient) +
                      layout_.place.shard * flat.owned * kernels::DTypeBytes(memory.gradient_dtype);
    Keep(group_->ReduceScatterSum(Communicator::kShard, memory.gradient, own, flat.owned,
                                  memory.gradient_dtype, comm_));
  }
  if (last_micro_step && plan_.replicate > 1 && status_.ok()) {
    Keep(group_->AllReduceSum(Communicator::kReplicate, memory.reduced, flat.owned,
                              memory.reduced_dtype, comm_));
  }
}

void UnitExchange::GatherOfWorld(const void* own, void* all, int64_t bytes) {
  if (!status_.ok()) return;
  Keep(group_->AllGatherBytes(Communicator::kWorld, own, all, bytes, comm_));
}

void UnitExchange::Fork() {
  forked_.Record(compute_);
  kernels::WaitEvent(forked_.get(), comm_);
}

void UnitExchange::Join() {
  joined_.Record(comm_);
  kernels::WaitEvent(joined_.get(), compute_);
}

UnitSweep::UnitSweep(UnitExchange& exchange, const ExchangeScript& script, Stopwatch* exposed)
    : exchange_(exchange),
      script_(script),
      exposed_(exposed),
      slots_(script.start.slots),
      scales_(script.start.scales),
      in_flight_(exchange.flats_of_unit_.size(), false),
      stale_(exchange.flats_of_unit_.size(), script.start.stale) {
  if (script.start.embedding) stale_[plan::kEmbeddingUnit] = false;
}

template <typename Calls>
void UnitSweep::Communicate(const Calls& calls) {
  // Calls that are not on a stream beside compute take compute's time themselves.
  const bool blocking = exchange_.plan_.device == DeviceKind::kCpu || !exchange_.Overlaps();
  if (blocking) exposed_->Start(exchange_.compute_);
  exchange_.Fork();
  calls();
  joined_ = false;
  if (blocking) exposed_->Stop(exchange_.compute_);
}

void UnitSweep::Await(const EventHandle& event) {
  if (exchange_.plan_.device == DeviceKind::kCpu || !exchange_.Overlaps()) return;
  exposed_->Start(exchange_.compute_);
  kernels::WaitEvent(event.get(), exchange_.compute_);
  exposed_->Stop(exchange_.compute_);
}

plan::Lacking UnitSweep::LackingOf(int32_t unit) const {
  plan::Lacking lacking{.beside = stale_[static_cast<size_t>(unit)]};
  if (!exchange_.IsSlotted(unit)) return lacking;
  const Residency::Slot& slot = slots_[exchange_.SlotOf(unit)];
  lacking.slot = slot.unit != unit || slot.codes != script_.codes;
  lacking.updated = !slot.current;
  return lacking;
}

void UnitSweep::Fetch(int32_t unit) {
  const plan::Lacking lacking = LackingOf(unit);
  const bool finds_scales = script_.codes && !scales_ && exchange_.HasCodes(unit);
  Communicate([&] {
    if (finds_scales) exchange_.FindScales();
    exchange_.Fetch(unit, lacking, script_.codes);
    exchange_.arrived_[static_cast<size_t>(unit)].Record(exchange_.comm_);
  });
  in_flight_[static_cast<size_t>(unit)] = true;
  stale_[static_cast<size_t>(unit)] = false;
  scales_ = scales_ || finds_scales;
  if (exchange_.IsSlotted(unit)) slots_[exchange_.SlotOf(unit)] = {unit, true, script_.codes};
}

void UnitSweep::FetchAhead(size_t now) {
  for (; fetched_ < script_.visits.size(); ++fetched_) {
    const int32_t unit = script_.visits[fetched_];
    if (!exchange_.FetchOf(unit).Lacks(LackingOf(unit))) continue;
    const size_t ahead = fetched_ - now;
    if (ahead > 0 && !exchange_.Overlaps()) return;
    if (exchange_.IsSlotted(unit)) {
      // What its slot holds was last read before the unit of now, and that is not in the slot.
      const bool free = ahead == 0 || !exchange_.IsSlotted(script_.visits[now]) ||
                        exchange_.SlotOf(unit) != exchange_.SlotOf(script_.visits[now]);
      if (ahead > 1 || !free) return;
    }
    Fetch(unit);
  }
}

void UnitSweep::Enter(int32_t unit) {
  if (position_ > 0 && script_.visits[position_ - 1] == unit) return;
  FetchAhead(position_++);
  if (!in_flight_[static_cast<size_t>(unit)]) return;
  in_flight_[static_cast<size_t>(unit)] = false;
  Await(exchange_.arrived_[static_cast<size_t>(unit)]);
}

void UnitSweep::BeginGradients(int32_t unit, bool idle) {
  const size_t slot = static_cast<size_t>(plan::GradientSlotOf(unit));
  for (const size_t f : exchange_.flats_of_unit_[static_cast<size_t>(unit)]) {
    const plan::Flat& flat = exchange_.layout_.map.flats[f];
    if (!flat.gradient_slotted()) continue;
    if (reducing_[slot]) Await(exchange_.slot_free_[slot]);
    reducing_[slot] = false;
    const FlatMemory& memory = exchange_.buffers_.flats[f];
    const int64_t bytes = kernels::DTypeBytes(memory.gradient_dtype);
    const std::vector<plan::Range> whole = {{0, flat.elements}};
    for (const plan::Range& range : idle ? whole : exchange_.accumulated_[f]) {
      kernels::SetMemory(static_cast<char*>(memory.gradient) + range.begin * bytes, 0,
                         range.count() * bytes, exchange_.compute_);
    }
  }
}

void UnitSweep::ReduceGradients(int32_t unit) {
  if (exchange_.group_ == nullptr) return;
  std::vector<size_t> flats;
  bool slotted = false;
  for (const size_t f : exchange_.flats_of_unit_[static_cast<size_t>(unit)]) {
    const plan::Flat& flat = exchange_.layout_.map.flats[f];
    slotted = slotted || flat.gradient_slotted();
    if (flat.trained() && (flat.gradient_slotted() || script_.last_micro_step)) flats.push_back(f);
  }
  if (flats.empty()) return;
  Communicate([&] {
    for (const size_t f : flats) exchange_.Reduce(f, script_.last_micro_step);
    if (!slotted) return;
    const size_t slot = static_cast<size_t>(plan::GradientSlotOf(unit));
    exchange_.slot_free_[slot].Record(exchange_.comm_);
    reducing_[slot] = true;
  });
}

void UnitSweep::FetchEmbedding() {
  if (exchange_.group_ == nullptr) return;
  Communicate([&] { exchange_.Fetch(plan::kEmbeddingUnit, {.beside = true}, script_.codes); });
}

bool UnitSweep::ExchangesRows() const {
  return exchange_.group_ != nullptr && script_.last_micro_step &&
         exchange_.extents_.embedding_rows > 0;
}

void UnitSweep::BeginRows(int64_t tokens) {
  const Buffers& buffers = exchange_.buffers_;
  const int64_t capacity = exchange_.extents_.tokens;
  int32_t* const own = buffers.embedding_ids + exchange_.rank() * capacity;
  kernels::CopyMemory(own, buffers.tokens, 4 * tokens, exchange_.compute_);
  kernels::SetMemory(own + tokens, 0xFF, 4 * (capacity - tokens), exchange_.compute_);
  ReduceGradients(plan::kEmbeddingUnit);
  Communicate([&] { exchange_.GatherOfWorld(own, buffers.embedding_ids, 4 * capacity); });
}

EmbeddingRows UnitSweep::TakeRows() {
  const Buffers& buffers = exchange_.buffers_;
  const plan::BatchExtents& n = exchange_.extents_;
  const int64_t row_bytes =
      exchange_.plan_.model.hidden_size * kernels::DTypeBytes(ComputeDType(exchange_.plan_));
  Communicate(
      [&] { exchange_.GatherOfWorld(buffers.dres, buffers.embedding_rows, n.tokens * row_bytes); });
  Finish();
  return {.tokens = exchange_.status_.ok() ? n.embedding_rows : 0,
          .ids = buffers.embedding_ids,
          .rows = buffers.embedding_rows,
          .owned = exchange_.owned_embedding_};
}

void UnitSweep::Finish() {
  if (joined_) return;
  joined_ = true;
  if (exchange_.plan_.device == DeviceKind::kCpu) return;
  exposed_->Start(exchange_.compute_);
  exchange_.Join();
  exposed_->Stop(exchange_.compute_);
}

}  // namespace coxswain::engine
