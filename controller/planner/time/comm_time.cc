#include "controller/planner/time/comm_time.h"

#include <algorithm>
#include <array>

#include "common/plan/embedding_rows.h"
#include "common/plan/shard_map.h"
#include "common/plan/storage.h"
#include "common/plan/unit_fetch.h"
#include "controller/planner/time/block_products.h"

namespace coxswain::planner {
namespace {

double Bytes(plan::Storage storage, int64_t elements) {
  return static_cast<double>(plan::StorageBytes(storage, elements));
}

double Seconds(const plan::LinkSpeed& point) {
  return static_cast<double>(point.bytes) / point.bytes_per_second;
}

// Two queues of work, compute and communication, and what compute has waited for the other.
class Timeline {
 public:
  Timeline(const plan::Plan& plan, double dequantized_bytes_per_second)
      : plan_(plan),
        dequantized_bytes_per_second_(dequantized_bytes_per_second),
        map_(plan),
        fetches_(plan::UnitFetches(plan, map_)),
        products_(BlockProductsOf(plan)),
        slots_(static_cast<size_t>(plan.weight_slots)) {
    fetched_.resize(static_cast<size_t>(plan.model.num_layers + 2));
    weight_.resize(fetched_.size());
    stale_.assign(fetched_.size(), true);
    double trained = 0;
    for (const model::Parameter& p : plan.parameters) {
      if (p.trainable()) {
        trained += static_cast<double>(p.elements());
        if (p.unit == plan::kEmbeddingUnit) embedding_share_ += static_cast<double>(p.elements());
      }
      // The embedding is looked up; the head multiplies, be it tied or not.
      const bool head = model::IsHead(p) || (model::IsEmbedding(p) && plan.model.tie_embeddings);
      if (p.cols == 1 || (model::IsEmbedding(p) && !head)) continue;
      const size_t unit = head ? weight_.size() - 1 : static_cast<size_t>(p.unit);
      weight_[unit] += static_cast<double>(p.elements());
      all_weight_ += static_cast<double>(p.elements());
    }
    embedding_share_ /= std::max(1.0, trained);
    // A step begins with what backward of the one before left.
    for (int32_t unit = std::min(plan.weight_slots, static_cast<int32_t>(plan.model.num_layers));
         unit >= 1; --unit) {
      slots_[static_cast<size_t>(plan::WeightSlotOf(plan, unit))] = {unit, false};
    }
  }

  void Forward(double seconds, bool first) {
    const int32_t last = static_cast<int32_t>(fetched_.size()) - 1;
    if (first) {
      // With overlap the embedding has been gathered beside the update.
      const int32_t least = plan_.overlap ? plan::kEmbeddingUnit + 1 : plan::kEmbeddingUnit;
      for (int32_t unit = least; unit <= last; ++unit) {
        if (!FetchOf(unit).slotted) Fetch(unit, {.beside = true});
      }
    }
    for (int32_t unit = 0; unit <= last; ++unit) {
      if (unit == 1) FillSlot(unit);
      // The next unit is fetched while this one computes, once the one before it is done.
      if (unit + 1 <= last) FillSlot(unit + 1);
      Compute(unit, seconds, fetched_[static_cast<size_t>(unit)]);
      now_ += RangesSeconds(unit);
    }
  }

  void Backward(double seconds, bool last_micro_step) {
    const int32_t last = static_cast<int32_t>(fetched_.size()) - 1;
    const bool rows = last_micro_step && plan::ExchangesEmbeddingRows(plan_);
    for (int32_t unit = last; unit >= 0; --unit) {
      if (unit - 1 >= 1) FillSlot(unit - 1);
      double ready = fetched_[static_cast<size_t>(unit)];
      if (plan_.zero >= 2) {
        ready = std::max(ready, slot_free_[static_cast<size_t>(plan::GradientSlotOf(unit))]);
      }
      Compute(unit, seconds, ready);
      now_ += RangesSeconds(unit) + RangesAgainSeconds(unit);
      if (unit == plan::kEmbeddingUnit && rows) break;
      Reduce(unit, last_micro_step);
      if (unit == last && rows) Reduce(plan::kEmbeddingUnit, last_micro_step);
    }
    if (rows) Receive(static_cast<double>(plan::EmbeddingRowBytesReceived(plan_)));
    Join();
  }

  void Update(double seconds) {
    const double embedding = seconds * embedding_share_;
    now_ += embedding;
    if (plan_.overlap) Fetch(plan::kEmbeddingUnit, {.beside = true});
    for (Slot& slot : slots_) slot.current = false;
    stale_.assign(stale_.size(), true);
    now_ += seconds - embedding;
    Join();
  }
  // A sum of a few numbers.
  void Decide() {
    comm_ += LinkSeconds(plan_.links, 64);
    busy_ = std::max(busy_, now_) + LinkSeconds(plan_.links, 64);
    Join();
  }

  plan::Prediction Result() const {
    return {.step_seconds = now_, .comm_seconds = comm_, .exposed_seconds = waited_};
  }

 private:
  void Compute(int32_t unit, double all_seconds, double ready) {
    if (ready > now_) {
      waited_ += ready - now_;
      now_ = ready;
    }
    now_ += all_seconds * weight_[static_cast<size_t>(unit)] / all_weight_;
  }

  void Send(double bytes, int32_t ranks, int rounds) {
    if (ranks == 1) return;
    for (int round = 0; round < rounds; ++round) Receive(bytes * (ranks - 1) / ranks);
  }

  void Receive(double bytes) {
    if (bytes == 0) return;
    const double seconds = LinkSeconds(plan_.links, bytes);
    busy_ = std::max(busy_, now_) + seconds;
    comm_ += seconds;
    if (!plan_.overlap || plan_.device == DeviceKind::kCpu) Join();  // in turn with compute
  }

  // Of a block what its slot lacks.
  void FillSlot(int32_t unit) {
    if (!FetchOf(unit).slotted) return;
    Slot& slot = slots_[static_cast<size_t>(plan::WeightSlotOf(plan_, unit))];
    Fetch(unit, {.slot = slot.unit != unit,
                 .updated = !slot.current,
                 .beside = stale_[static_cast<size_t>(unit)]});
    stale_[static_cast<size_t>(unit)] = false;
    slot = {unit, true};
  }

  void Fetch(int32_t unit, const plan::Lacking& lacking) {
    for (const plan::GatherPart& part : FetchOf(unit).gathers) {
      if (!plan::UnitFetch::Gathers(part, lacking)) continue;
      const plan::Flat& flat = map_.flats[part.flat];
      Send(GatheredBytes(flat), plan_.shard, 1);
      fetched_[static_cast<size_t>(unit)] = busy_;
    }
    if (lacking.slot) now_ += DequantizeSeconds(unit);
  }

  static double GatheredBytes(const plan::Flat& flat) {
    if (flat.coded) return static_cast<double>(flat.elements);
    return flat.quantized() ? PackedBytes(flat) : Bytes(flat.storage.weights, flat.elements);
  }

  static double PackedBytes(const plan::Flat& flat) {
    return Bytes(flat.storage.weights, flat.packed) +
           static_cast<double>(plan::ScaleBytes(flat.storage.weights, flat.packed));
  }

  // Beside compute, but of its memory and multiprocessors.
  double DequantizeSeconds(int32_t unit) const { return DequantizeSeconds(unit, false); }

  // Experts that are dequantised in ranges, once for the products of a pass.
  double RangesSeconds(int32_t unit) const { return DequantizeSeconds(unit, true); }

  // The stacks whose products are computed again, once more.
  double RangesAgainSeconds(int32_t unit) const {
    if (products_.experts_again == 0) return 0;
    return RangesSeconds(unit) * products_.experts_again / products_.experts;
  }

  // Codes read and values written.
  double DequantizeSeconds(int32_t unit, bool in_ranges) const {
    double bytes = 0;
    for (const plan::Flat& flat : map_.flats) {
      if (flat.unit != unit || !flat.quantized() || flat.in_ranges != in_ranges) continue;
      bytes += PackedBytes(flat) + Bytes(plan::ComputeStorage(plan_), flat.elements);
    }
    return bytes == 0 ? 0 : bytes / dequantized_bytes_per_second_;
  }

  const plan::UnitFetch& FetchOf(int32_t unit) const { return fetches_[static_cast<size_t>(unit)]; }

  void Reduce(int32_t unit, bool last_micro_step) {
    for (const plan::Flat& flat : map_.flats) {
      if (flat.unit != unit || !flat.trained()) continue;
      if (!flat.gradient_slotted() && !last_micro_step) continue;
      Send(Bytes(*flat.storage.gradient, flat.elements), plan_.shard, 1);
      if (last_micro_step) Send(Bytes(flat.reduced_gradient(), flat.owned), plan_.replicate, 2);
      if (flat.gradient_slotted())
        slot_free_[static_cast<size_t>(plan::GradientSlotOf(unit))] = busy_;
    }
  }

  void Join() {
    waited_ += std::max(0.0, busy_ - now_);
    now_ = std::max(now_, busy_);
  }

  // As in the engine's Residency.
  struct Slot {
    int32_t unit = -1;
    bool current = false;
  };

  const plan::Plan& plan_;
  const double dequantized_bytes_per_second_;
  const plan::ShardMap map_;
  const std::vector<plan::UnitFetch> fetches_;  // by unit
  const BlockProducts products_;
  std::vector<Slot> slots_;
  std::vector<bool> stale_;      // by slotted unit: what lies beside its slot
  std::vector<double> weight_;   // by unit: elements that multiply
  std::vector<double> fetched_;  // by unit: when its weights are there
  std::array<double, plan::kGradientSlots> slot_free_ = {};
  double all_weight_ = 0;
  double embedding_share_ = 0;  // of what is trained
  double now_ = 0, busy_ = 0, comm_ = 0, waited_ = 0;
};

}  // namespace

std::vector<plan::LinkSpeed> DefaultLinks(const plan::Plan& plan) {
  if (plan.world_size() == 1) return {};
  if (plan.device == DeviceKind::kCuda) {
    return {{int64_t{32} << 20, 240e9}, {int64_t{128} << 20, 290e9}, {int64_t{2} << 30, 337e9}};
  }
  return {{int64_t{16} << 10, 82e6}, {int64_t{32} << 20, 0.98e9}};
}

double LinkSeconds(const std::vector<plan::LinkSpeed>& links, double bytes) {
  if (links.empty() || bytes == 0) return 0;
  if (links.size() == 1) return bytes / links.front().bytes_per_second;
  size_t above = 1;
  while (above + 1 < links.size() && bytes > static_cast<double>(links[above].bytes)) ++above;
  const plan::LinkSpeed &low = links[above - 1], &high = links[above];
  const double slope = (Seconds(high) - Seconds(low)) / static_cast<double>(high.bytes - low.bytes);
  return std::max(0.0, Seconds(low) + slope * (bytes - static_cast<double>(low.bytes)));
}

plan::Prediction PredictStep(const plan::Plan& plan, const ComputeSeconds& compute) {
  Timeline timeline(plan, compute.dequantized_bytes_per_second);
  for (int64_t i = 0; i < compute.micro_steps; ++i) {
    timeline.Forward(compute.forward, i == 0);
    timeline.Backward(compute.backward, i + 1 == compute.micro_steps);
  }
  if (plan.world_size() > 1) timeline.Decide();
  timeline.Update(compute.update);
  return timeline.Result();
}

}  // namespace coxswain::planner
