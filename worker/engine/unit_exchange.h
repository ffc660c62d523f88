// The collectives of parameters and gradients, unit by unit, on a stream of their own beside
// compute. common/plan/shard_map.h says what a unit is, the plan's ZeRO stage what travels:
//   weights    a unit is fetched (common/plan/unit_fetch.h): where it needs no slot in the first
//              forward after an update; in a slot whenever a sweep needs a unit that its slot does
//              not hold, or holds as it was before the update: then its trained parts alone. Slot
//              by slot, the next unit is fetched while this one computes; what needs no slot is
//              fetched at once.
//   gradients  reduced over the shard group right after the unit's backward: whole ones in the last
//              micro-step, slotted ones in each, added there to the owned range in float32; then,
//              in the last micro-step, over the replicas. Where common/plan/embedding_rows.h says
//              so, the embedding's goes early and the rows of the last micro-step go by themselves.
// The embedding, which forward reads first, is fetched as soon as it is updated, beside the update
// of the rest.
// The order of collectives is a function of the plan and of the sweeps alone, so equal on all
// ranks. Without the plan's overlap collectives take their turn in the compute stream and nothing
// is prefetched. On the CPU the same calls run in order on one thread. Source: Zhao et al.,
// "PyTorch FSDP", 2023; llmq, LLamaWeightsManager (slots and versions).
#ifndef COXSWAIN_WORKER_ENGINE_UNIT_EXCHANGE_H_
#define COXSWAIN_WORKER_ENGINE_UNIT_EXCHANGE_H_

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
#include "worker/engine/buffers.h"
#include "worker/engine/device_handles.h"
#include "worker/engine/model.h"
#include "worker/engine/stopwatch.h"

namespace coxswain::engine {

// Says which weights of other ranks this one has between two sweeps.
struct Residency {
  struct Slot {
    int32_t unit = -1;     // -1: none
    bool current = false;  // its trained flats are those of the last update
    bool operator==(const Slot&) const = default;
  };
  bool stale = true;        // trained flats that need no slot
  bool embedding = false;   // those of the embedding are here
  std::vector<Slot> slots;  // of weights
  bool operator==(const Residency&) const = default;
};

// What a sweep walks through and exchanges: a key of its graph.
struct ExchangeScript {
  std::vector<int32_t> visits;  // units in the order in which the sweep reads their weights
  Residency start;
  bool last_micro_step = false;  // whole gradients are reduced

  std::string Key() const;  // of what differs between sweeps over the same visits
};

// Lookups of all ranks in one micro-step, and what of the gradient this rank adds them to.
struct EmbeddingRows {
  int64_t tokens = 0;
  const int32_t* ids = nullptr;  // [tokens], -1: none
  const void* rows = nullptr;    // [tokens, H]
  plan::Range owned;             // elements of the embedding's gradient
};

class UnitExchange {
 public:
  // The arguments are views that outlive this object; `compute` is the stream of the sweeps.
  UnitExchange(const plan::Plan& plan, const ParameterLayout& layout, const Buffers& buffers,
               kernels::Stream* compute);

  // `group` outlives this object's last sweep; nothing is here of other ranks yet.
  void Connect(comm::Collectives* group);

  const Residency& residency() const { return residency_; }
  // Called when a sweep, or the graph that was captured of one, has been launched.
  void Launched(const ExchangeScript& script) { residency_ = After(script); }
  // Called after an update: what other ranks own has changed, but for an embedding fetched in its
  // course.
  void Updated();
  // True when an update fetches the embedding as soon as it has updated it.
  bool FetchesEmbeddingEarly() const {
    return plan_.overlap && !FetchOf(plan::kEmbeddingUnit).empty();
  }

  // Sums n doubles over all ranks in place, in the compute stream.
  void SumDoubles(double* data, int64_t n);

  // The first failure of a collective. After one no other is made.
  const absl::Status& status() const { return status_; }

 private:
  friend class UnitSweep;
  struct StreamDeleter {
    void operator()(kernels::Stream* stream) const { kernels::DestroyStream(stream); }
  };

  Residency After(const ExchangeScript& script) const;
  Residency Nothing() const;  // of other ranks is here
  const plan::UnitFetch& FetchOf(int32_t unit) const { return fetches_[static_cast<size_t>(unit)]; }
  bool IsSlotted(int32_t unit) const { return FetchOf(unit).slotted; }
  // Makes the weights of `unit` usable, in the communication stream. Held: they are where sweeps
  // read them, as they were before the last update.
  void Fetch(int32_t unit, bool held);
  void Gather(size_t flat);
  void GatherPacked(size_t flat);
  size_t SlotOf(int32_t unit) const { return static_cast<size_t>(plan::WeightSlotOf(plan_, unit)); }
  void Reduce(size_t flat, bool last_micro_step);
  void GatherOfWorld(const void* own, void* all, int64_t bytes);  // bytes: of a rank
  int rank() const { return layout_.place.replica * plan_.shard + layout_.place.shard; }
  // The communication stream waits for compute up to here, or the other way round.
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
  comm::Collectives* group_ = nullptr;          // null: no collective is made
  const std::vector<plan::UnitFetch> fetches_;  // by unit
  std::vector<std::vector<size_t>> flats_of_unit_;
  std::vector<std::vector<plan::Range>> accumulated_;  // by flat: elements that are added to
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

  // Called before the first launch that reads weights of `unit`: the next of the script, or that of
  // now.
  void Enter(int32_t unit);
  // Called before the unit's gradients are written. It clears those in a slot that no product will
  // overwrite, on an idle rank all.
  void BeginGradients(int32_t unit, bool idle);
  // Called after the last launch that writes them.
  void ReduceGradients(int32_t unit);
  // Called in an update, when the embedding has got its new values.
  void FetchEmbedding();
  // True when the gradient of this sweep's lookups goes as rows. Then follow, when the head's
  // gradient is there, BeginRows, which reduces what the embedding's gradient has by then; and at
  // the end TakeRows.
  bool ExchangesRows() const;
  void BeginRows(int64_t tokens);  // of Buffers::tokens, capacity T
  EmbeddingRows TakeRows();        // Buffers::dres has this rank's; compute goes on with all there
  // Compute goes on when all is exchanged.
  void Finish();

 private:
  template <typename Calls>
  void Communicate(const Calls& calls);
  void Await(const EventHandle& event);
  bool IsThere(int32_t unit) const;  // or on its way
  void Fetch(int32_t unit);
  void FetchAhead(size_t now);  // now: the visit that is being entered

  UnitExchange& exchange_;
  const ExchangeScript& script_;
  Stopwatch* const exposed_;  // time that compute waits for communication
  std::vector<Residency::Slot> slots_;
  size_t position_ = 0;          // visits entered
  size_t fetched_ = 0;           // visits whose weights are there or on their way
  std::vector<bool> in_flight_;  // by unit: fetched in this sweep and not waited for
  std::array<bool, plan::kGradientSlots> reducing_ = {false, false};
  bool joined_ = true;  // the communication stream has nothing of this sweep that compute lacks
};

}  // namespace coxswain::engine

#endif  // COXSWAIN_WORKER_ENGINE_UNIT_EXCHANGE_H_
