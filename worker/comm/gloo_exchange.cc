// All sums are made locally in rank order, so that their bits depend neither on timing nor on the
// topology:
//   all-reduce, large   reduce-scatter by all-to-all (rank j receives every rank's chunk j and adds
//                       them in rank order), then all-gather of the sums; 2 n (W-1)/W elements sent
//                       per rank, in segments, the next segment's exchange posted before the
//                       current one is added;
//   all-reduce, small   every rank sends everything to every other and adds locally: one round
//   trip,
//                       not two;
//   reduce-scatter      the first half of the large all-reduce;
//   all-gather          every rank sends its part to every other.
#include "worker/comm/gloo_exchange.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include <gloo/transport/unbound_buffer.h>

#include "worker/comm/rank_order_sum.h"

namespace coxswain::comm {
namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kSlotBytes = 256 << 10;   // one rank's part of a segment; stays in L2
constexpr size_t kDirectBytes = 16 << 10;  // up to here latency counts, not bandwidth
static_assert(kDirectBytes <= kSlotBytes);

template <typename Fn>
void ForPeers(const Members& members, Fn fn) {
  for (int step = 1; step < members.size(); ++step) fn((members.index + step) % members.size());
}

}  // namespace

// Buffers of one call: known to Abort while they live, waited on with the call's one deadline.
// Peers are named by their index in the communicator.
class GlooExchange::Call {
 public:
  Call(GlooExchange* exchange, const Channel& channel)
      : exchange_(exchange),
        members_(channel.members),
        deadline_(Clock::now() + exchange->timeout_),
        awaited_(exchange->mesh_->size, 0) {}
  ~Call() {
    const int most = *std::max_element(awaited_.begin(), awaited_.end());
    exchange_->missing_.clear();
    for (size_t rank = 0; most > 0 && rank < awaited_.size(); ++rank) {
      if (awaited_[rank] == most) exchange_->missing_.push_back(static_cast<int>(rank));
    }
    MutexLock lock(exchange_->mu_);
    exchange_->active_.clear();
  }

  Buffer* Add(const void* data, size_t bytes) {
    buffers_.push_back(exchange_->mesh_->createUnboundBuffer(const_cast<void*>(data), bytes));
    MutexLock lock(exchange_->mu_);
    if (exchange_->aborted_) throw gloo::IoException("aborted");
    exchange_->active_.push_back(buffers_.back().get());
    return buffers_.back().get();
  }
  void Send(Buffer* buffer, int peer, uint64_t tag, size_t offset, size_t bytes) {
    buffer->send(members_.ranks[peer], tag, offset, bytes);
  }
  void Receive(Buffer* buffer, int peer, uint64_t tag, size_t offset, size_t bytes) {
    ++awaited_[members_.ranks[peer]];
    buffer->recv(members_.ranks[peer], tag, offset, bytes);
  }
  void WaitSends(Buffer* buffer, int64_t count) {
    for (; count > 0; --count) Check(buffer->waitSend(nullptr, Remaining()));
  }
  void WaitReceives(Buffer* buffer, int64_t count) {
    for (; count > 0; --count) {
      int from = -1;
      Check(buffer->waitRecv(&from, Remaining()));
      --awaited_[from];
    }
  }

 private:
  void Check(bool completed) {
    if (!completed) throw gloo::IoException("aborted");
  }
  std::chrono::milliseconds Remaining() const {
    return std::max(
        std::chrono::milliseconds(1),
        std::chrono::duration_cast<std::chrono::milliseconds>(deadline_ - Clock::now()));
  }

  GlooExchange* const exchange_;
  const Members& members_;
  const Clock::time_point deadline_;
  std::vector<int> awaited_;  // messages, by rank of the world
  std::vector<std::unique_ptr<Buffer>> buffers_;
};

GlooExchange::GlooExchange(std::shared_ptr<gloo::rendezvous::Context> mesh,
                           std::chrono::milliseconds timeout)
    : mesh_(std::move(mesh)), timeout_(timeout) {
  for (auto& half : scratch_) half.resize(kSlotBytes * static_cast<size_t>(mesh_->size));
}

void GlooExchange::Abort() {
  MutexLock lock(mu_);
  aborted_ = true;
  for (Buffer* buffer : active_) {
    buffer->abortWaitRecv();
    buffer->abortWaitSend();
  }
  Close();
}

template <typename T>
std::vector<const T*> GlooExchange::Slots(const Channel& channel, int half) const {
  std::vector<const T*> slots(channel.members.ranks.size());
  for (size_t r = 0; r < slots.size(); ++r) {
    slots[r] = reinterpret_cast<const T*>(scratch_[half].data() + r * kSlotBytes);
  }
  return slots;
}

template <typename T>
void GlooExchange::AllReduce(Channel& channel, T* data, int64_t n) {
  if (n * sizeof(T) <= kDirectBytes) {
    AllReduceDirect(channel, data, n);
  } else {
    AllReduceScattered(channel, data, n);
  }
}

template <typename T>
void GlooExchange::AllReduceDirect(Channel& channel, T* data, int64_t n) {
  Call call(this, channel);
  const Members& members = channel.members;
  const size_t bytes = n * sizeof(T);
  Buffer* mine = call.Add(data, bytes);
  Buffer* theirs = call.Add(scratch_[0].data(), scratch_[0].size());
  const uint64_t tag = channel.next_tag++;
  ForPeers(members, [&](int r) { call.Receive(theirs, r, tag, r * kSlotBytes, bytes); });
  ForPeers(members, [&](int r) { call.Send(mine, r, tag, 0, bytes); });
  std::vector<const T*> parts = Slots<T>(channel, 0);
  parts[members.index] = data;
  call.WaitReceives(theirs, members.size() - 1);
  call.WaitSends(mine, members.size() - 1);  // before the sum is written over what is being sent
  SumInRankOrder(parts, n, data);
}

template <typename T>
void GlooExchange::AllReduceScattered(Channel& channel, T* data, int64_t n) {
  Call call(this, channel);
  const Members& members = channel.members;
  const int world = members.size(), self = members.index;
  Buffer* mine = call.Add(data, n * sizeof(T));
  const std::array<Buffer*, 2> theirs = {call.Add(scratch_[0].data(), scratch_[0].size()),
                                         call.Add(scratch_[1].data(), scratch_[1].size())};
  const int64_t segment = static_cast<int64_t>(kSlotBytes / sizeof(T)) * world;
  const int64_t segments = (n + segment - 1) / segment;
  const uint64_t tags = channel.next_tag;
  channel.next_tag += 2 * segments;
  // Element where rank r's chunk of segment s begins.
  const auto begin = [&](int64_t s, int r) {
    const int64_t first = s * segment, length = std::min(segment, n - first);
    return first + length * r / world;
  };
  const auto chunk_bytes = [&](int64_t s, int r) {
    return static_cast<size_t>(begin(s, r + 1) - begin(s, r)) * sizeof(T);
  };
  // Every rank's part of my chunk comes into a slot of its own; their chunks of my data go out.
  const auto post_scatter = [&](int64_t s) {
    ForPeers(members, [&](int r) {
      call.Receive(theirs[s % 2], r, tags + 2 * s, r * kSlotBytes, chunk_bytes(s, self));
    });
    ForPeers(members, [&](int r) {
      call.Send(mine, r, tags + 2 * s, begin(s, r) * sizeof(T), chunk_bytes(s, r));
    });
  };
  post_scatter(0);
  for (int64_t s = 0; s < segments; ++s) {
    if (s + 1 < segments) post_scatter(s + 1);
    call.WaitReceives(theirs[s % 2], world - 1);
    std::vector<const T*> parts = Slots<T>(channel, s % 2);
    T* const own = data + begin(s, self);
    parts[self] = own;
    SumInRankOrder(parts, begin(s, self + 1) - begin(s, self), own);
    // A peer sends its sum only after it has all of my part, so receiving over it is safe.
    ForPeers(members, [&](int r) {
      call.Receive(mine, r, tags + 2 * s + 1, begin(s, r) * sizeof(T), chunk_bytes(s, r));
    });
    ForPeers(members, [&](int r) {
      call.Send(mine, r, tags + 2 * s + 1, begin(s, self) * sizeof(T), chunk_bytes(s, self));
    });
  }
  call.WaitReceives(mine, segments * (world - 1));
  call.WaitSends(mine, 2 * segments * (world - 1));
}

template <typename T>
void GlooExchange::ReduceScatter(Channel& channel, const T* send, T* receive, int64_t n) {
  Call call(this, channel);
  const Members& members = channel.members;
  const int world = members.size(), self = members.index;
  Buffer* mine = call.Add(send, n * sizeof(T) * world);
  const std::array<Buffer*, 2> theirs = {call.Add(scratch_[0].data(), scratch_[0].size()),
                                         call.Add(scratch_[1].data(), scratch_[1].size())};
  const int64_t segment = static_cast<int64_t>(kSlotBytes / sizeof(T));
  const int64_t segments = (n + segment - 1) / segment;
  const uint64_t tags = channel.next_tag;
  channel.next_tag += segments;
  const auto length = [&](int64_t s) { return std::min(segment, n - s * segment); };
  const auto post = [&](int64_t s) {
    const size_t bytes = length(s) * sizeof(T);
    ForPeers(members,
             [&](int r) { call.Receive(theirs[s % 2], r, tags + s, r * kSlotBytes, bytes); });
    ForPeers(members, [&](int r) {
      call.Send(mine, r, tags + s, (r * n + s * segment) * sizeof(T), bytes);
    });
  };
  post(0);
  for (int64_t s = 0; s < segments; ++s) {
    if (s + 1 < segments) post(s + 1);
    call.WaitReceives(theirs[s % 2], world - 1);
    std::vector<const T*> parts = Slots<T>(channel, s % 2);
    parts[self] = send + self * n + s * segment;  // nobody is sent this part: receive may be it
    SumInRankOrder(parts, length(s), receive + s * segment);
  }
  call.WaitSends(mine, segments * (world - 1));
}

void GlooExchange::AllGather(Channel& channel, const void* send, void* receive, int64_t bytes) {
  Call call(this, channel);
  const Members& members = channel.members;
  const size_t part = static_cast<size_t>(bytes);
  char* const own = static_cast<char*>(receive) + members.index * part;
  Buffer* mine = call.Add(send, part);
  Buffer* theirs = call.Add(receive, part * members.size());
  const uint64_t tag = channel.next_tag++;
  ForPeers(members, [&](int r) { call.Receive(theirs, r, tag, r * part, part); });
  ForPeers(members, [&](int r) { call.Send(mine, r, tag, 0, part); });
  if (own != send) std::memcpy(own, send, part);
  call.WaitReceives(theirs, members.size() - 1);
  call.WaitSends(mine, members.size() - 1);
}

template void GlooExchange::AllReduce(Channel&, float*, int64_t);
template void GlooExchange::AllReduce(Channel&, double*, int64_t);
template void GlooExchange::AllReduce(Channel&, BFloat16*, int64_t);
template void GlooExchange::ReduceScatter(Channel&, const float*, float*, int64_t);
template void GlooExchange::ReduceScatter(Channel&, const BFloat16*, BFloat16*, int64_t);

}  // namespace coxswain::comm
