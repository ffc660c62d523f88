// The collectives of parameters and gradients, unit by unit, on a separate stream beside compute.
// common/plan/shard_map.h defines a unit. The plan's ZeRO stage decides what is exchanged:
//   weights    Fetched unit by unit, part by part (common/plan/unit_fetch.h). What lies beside the
//              slots is fetched in the first forward after an update. What lies in a slot is
//              fetched when a sweep needs it and the slot holds another unit. If the slot holds the
//              unit as it was before the update, only its trained parts are fetched. Slot by slot,
//              the next unit is fetched while this one computes. Units without a slot are all
//              fetched at once. Of weights whose codes are gathered (weight_codes.h) a slot holds
//              these in all sweeps but those that answer prompts.
//   gradients  Reduced over the shard group right after the unit's backward: whole gradients in the
//              last micro-step; slotted ones in every micro-step, and added to the owned range in
//              float32. In the last micro-step they are then reduced over the replicas. Where
//              common/plan/embedding_rows.h says so, the embedding's gradient is reduced early, and
//              the rows of the last micro-step are exchanged separately.
// Forward reads the embedding first. It is therefore fetched as soon as it is updated, during the
// update of the rest. The order of collectives depends on the plan and the sweeps alone, so it is
// equal on all ranks. Without plan.overlap collectives run in the compute stream and nothing is
// prefetched. On the CPU the same calls run in order on one thread. Source: Zhao et al., "PyTorch
// FSDP", 2023; llmq, LLamaWeightsManager (slots and versions).
#ifndef COXSWAIN_WORKER_ENGINE_EXCHANGE_UNIT_EXCHANGE_H_
#define COXSWAIN_WORKER_ENGINE_EXCHANGE_UNIT_EXCHANGE_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "common/plan/plan.h"
#include "common/plan/unit_fetch.h"
#include "worker/comm/collectives.h"
#include "worker/engine/device/device_handles.h"
#include "worker/engine/device/stopwatch.h"
#include "worker/engine/exchange/weight_codes.h"
#include "worker/engine/memory/buffers.h"
#include "worker/engine/memory/model.h"

namespace coxswain::engine {

// The weights of other ranks that this rank holds between two sweeps.
struct Residency {
  struct Slot {
    int32_t unit = -1;     // -1: none
    bool current = false;  // its trained flats in the slot are as after the last update
    bool codes = false;    // weights whose codes are gathered are there as codes
    bool operator==(const Slot&) const = default;
  };
  bool stale = true;        // trained flats beside the slots are outdated
  bool embedding = false;   // the trained flats of the embedding are up to date
  bool scales = false;      // those of weights whose codes are gathered are up to date
  std::vector<Slot> slots;  // slots of weights
  bool operator==(const Residency&) const = default;
};

// The units that a sweep visits and exchanges. It is part of the key of the sweep's graph.
struct ExchangeScript {
  std::vector<int32_t> visits;  // units in the order in which the sweep reads their weights
  Residency start;
  bool last_micro_step = false;  // whole gradients are reduced
  bool codes = false;            // codes of weights are read where they are gathered

  std::string Key() const;  // the part that differs between sweeps over the same visits
};

// The lookups of all ranks in one micro-step, and the part of the gradient to which this rank adds
// them.
struct EmbeddingRows {
  int64_t tokens = 0;
  const int32_t* ids = nullptr;  // [tokens], -1: none
  const void* rows = nullptr;    // [tokens, H]
  plan::Range owned;             // elements of the embedding's gradient
};

class UnitExchange {
 public:
  // The arguments must outlive this object. `compute` is the stream of the sweeps.
  UnitExchange(const plan::Plan& plan, const ParameterLayout& layout, const Buffers& buffers,
               kernels::Stream* compute);

  // `group` must outlive this object's last sweep. Afterwards this rank holds no weights of other
  // ranks.
  void Connect(comm::Collectives* group);

  // Weights were loaded anew: what this rank holds of other ranks, or in slots, is outdated.
  void Forget() { residency_ = Nothing(); }

  const Residency& residency() const { return residency_; }
  // Call it after a sweep, or its captured graph, has been launched.
  void Launched(const ExchangeScript& script) { residency_ = After(script); }
  // Call it after an update: weights that other ranks own are now out of date, except an embedding
  // that the update fetched.
  void Updated();
  // True when an update fetches the embedding as soon as it has updated it.
  bool FetchesEmbeddingEarly() const {
    return plan_.overlap && !FetchOf(plan::kEmbeddingUnit).empty();
  }

  // Sums n doubles over all ranks in place, in the compute stream.
  void SumDoubles(double* data, int64_t n);
  bool GathersCodes() const { return codes_.any(); }
  // Gathers n floats of every rank likewise: data[r n, (r + 1) n) is rank r's.
  void GatherFloats(float* data, int64_t n);

  // The first failure of a collective. After it no other collective is launched.
  const absl::Status& status() const { return status_; }

 private:
  friend class UnitSweep;
  struct StreamDeleter {
    void operator()(kernels::Stream* stream) const { kernels::DestroyStream(stream); }
  };

  Residency After(const ExchangeScript& script) const;
  Residency Nothing() const;  // without any weights of other ranks
  const plan::UnitFetch& FetchOf(int32_t unit) const { return fetches_[static_cast<size_t>(unit)]; }
  bool IsSlotted(int32_t unit) const { return FetchOf(unit).slotted; }
  bool HasCodes(int32_t unit) const;
  // Of all weights whose codes are gathered, in the communication stream.
  void FindScales();
  // Fetches what lacks of the weights of `unit`, in the communication stream; as codes where they
  // are gathered and wanted.
  void Fetch(int32_t unit, const plan::Lacking& lacking, bool codes);
  void Gather(size_t flat);
  void GatherPacked(size_t flat);
  void GatherCodes(size_t flat);
  // Of a coded flat, before ranks have met: what others would send is what this rank has. A warm-up
  // then multiplies numbers as large as those of a step.
  void RepeatOwn(size_t flat, const void* own, int64_t bytes);
  size_t SlotOf(int32_t unit) const { return static_cast<size_t>(plan::WeightSlotOf(plan_, unit)); }
  void Reduce(size_t flat, bool last_micro_step);
  void GatherOfWorld(const void* own, void* all, int64_t bytes);  // bytes per rank
  int rank() const { return layout_.place.replica * plan_.shard + layout_.place.shard; }
  // Fork: the communication stream waits for the compute stream. Join: the other way round.
  void Fork();
  void Join();
  bool Overlaps() const { return comm_ != compute_; }
  void Keep(const absl::Status& status) {
    if (status_.ok()) status_ = status;
  }

  const plan::Plan& plan_;
  const ParameterLayout& layout_;
  const Buffers& buffers_;
  kernels::Stream* const compute_;
  const std::unique_ptr<kernels::Stream, StreamDeleter> owned_;
  kernels::Stream* const comm_;
  comm::Collectives* group_ = nullptr;          // null: no collective is launched
  const std::vector<plan::UnitFetch> fetches_;  // by unit
  const WeightCodes codes_;
  std::vector<std::vector<size_t>> flats_of_unit_;
  // By flat: elements to which gradients are added.
  std::vector<std::vector<plan::Range>> accumulated_;
  const plan::BatchExtents extents_;
  plan::Range owned_embedding_;  // elements
  Residency residency_;
  absl::Status status_;
  EventHandle forked_, joined_;
  std::vector<EventHandle> arrived_;  // by unit: its fetch is done
  std::array<EventHandle, plan::kGradientSlots> slot_free_;
};

// One sweep while its launches are issued. Every unit of the script is entered in order.
class UnitSweep {
 public:
  UnitSweep(UnitExchange& exchange, const ExchangeScript& script, Stopwatch* exposed);

  // Call it before the first launch that reads weights of `unit`, which is the next or the current
  // unit of the script.
  void Enter(int32_t unit);
  // Call it before the unit's gradients are written. It clears the gradients in a slot that no
  // product will overwrite; on an idle rank all.
  void BeginGradients(int32_t unit, bool idle);
  // Call it after the last launch that writes the unit's gradients.
  void ReduceGradients(int32_t unit);
  // Call it in an update, after the embedding has its new values.
  void FetchEmbedding();
  // True when ranks exchange the gradient of this sweep's lookups as rows. Then call BeginRows when
  // the head's gradient is complete: it reduces the embedding's gradient so far. At the end call
  // TakeRows.
  bool ExchangesRows() const;
  void BeginRows(int64_t tokens);  // `tokens` of Buffers::tokens; capacity T
  EmbeddingRows TakeRows();        // Buffers::dres has this rank's rows; compute waits for all
  // Compute waits until everything is exchanged.
  void Finish();

 private:
  template <typename Calls>
  void Communicate(const Calls& calls);
  void Await(const EventHandle& event);
  // Of the unit, of what is neither here nor on its way.
  plan::Lacking LackingOf(int32_t unit) const;
  void Fetch(int32_t unit);
  void FetchAhead(size_t now);  // now: the visit that is being entered

  UnitExchange& exchange_;
  const ExchangeScript& script_;
  Stopwatch* const exposed_;  // time that compute waits for communication
  std::vector<Residency::Slot> slots_;
  size_t position_ = 0;          // visits entered
  size_t fetched_ = 0;           // visits whose weights are there or on their way
  bool scales_;                  // as Residency::scales
  std::vector<bool> in_flight_;  // by unit: fetched in this sweep and not waited for
  std::vector<bool> stale_;      // by unit: what lies beside the slots is outdated
  std::array<bool, plan::kGradientSlots> reducing_ = {false, false};
  bool joined_ = true;  // the communication stream has nothing of this sweep that compute lacks
};

}  // namespace coxswain::engine

#endif  // COXSWAIN_WORKER_ENGINE_EXCHANGE_UNIT_EXCHANGE_H_
