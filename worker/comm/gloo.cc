// Collectives over Gloo's TCP transport.
//
// All-reduce adds in rank order, so that its bits depend neither on timing nor on the topology:
//   large  reduce-scatter by all-to-all (rank j receives every rank's chunk j and adds them in rank
//          order), then all-gather of the sums; 2 n (W-1)/W elements sent per rank, in segments,
//          the next segment's exchange posted before the current one is added;
//   small  every rank sends everything to every other and adds locally: one round trip, not two.
// Both give ((x_0 + x_1) + x_2) + ... element by element.
#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <exception>
#include <mutex>
#include <string_view>
#include <utility>
#include <vector>

#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/store.h>
#include <gloo/transport/tcp/device.h>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "worker/comm/collectives.h"

namespace coxswain::comm {
namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kSlotBytes = 256 << 10;   // one rank's part of a segment; stays in L2
constexpr size_t kDirectBytes = 16 << 10;  // up to here latency counts, not bandwidth
static_assert(kDirectBytes <= kSlotBytes);

// Our rendezvous as Gloo's store. Throws what the rendezvous reports: connectFullMesh has no
// status.
class StoreAdapter : public gloo::rendezvous::Store {
 public:
  StoreAdapter(Rendezvous* rendezvous, Clock::time_point deadline)
      : rendezvous_(rendezvous), deadline_(deadline) {}

  void set(const std::string& key, const std::vector<char>& data) override {
    status_ = rendezvous_->Set(key, std::string(data.begin(), data.end()));
    if (!status_.ok()) throw gloo::IoException(status_.ToString());
  }

  std::vector<char> get(const std::string& key) override {
    auto value = rendezvous_->Get(key, std::chrono::ceil<std::chrono::milliseconds>(std::max(
                                           deadline_ - Clock::now(), Clock::duration::zero())));
    status_ = value.status();
    if (!status_.ok()) throw gloo::IoException(status_.ToString());
    return {value->begin(), value->end()};
  }

  void wait(const std::vector<std::string>& keys) override {
    for (const std::string& key : keys) get(key);
  }
  void wait(const std::vector<std::string>& keys, const std::chrono::milliseconds&) override {
    wait(keys);
  }

  const absl::Status& status() const { return status_; }  // of the last call

 private:
  Rendezvous* const rendezvous_;
  const Clock::time_point deadline_;
  absl::Status status_;
};

// part[0] += part[1] + ... in rank order, n elements each.
template <typename T>
void AddInRankOrder(const std::vector<T*>& parts, int64_t n) {
  T* __restrict__ sum = parts[0];
  for (size_t rank = 1; rank < parts.size(); ++rank) {
    const T* __restrict__ x = parts[rank];
    for (int64_t i = 0; i < n; ++i) sum[i] += x[i];
  }
}

}  // namespace

struct Collectives::Impl {
  using Buffer = gloo::transport::UnboundBuffer;

  GroupConfig config;
  std::shared_ptr<gloo::rendezvous::Context> context;  // null in a group of one
  std::array<std::vector<char>, 2> scratch;            // world_size slots of kSlotBytes each
  uint64_t next_tag = 0;                               // same on all ranks: calls are collective
  std::atomic<uint64_t> ordinal{0};
  absl::Status failure;  // of the collective that broke the group

  std::mutex mu;  // aborted and active
  bool aborted = false;
  std::vector<Buffer*> active;  // of the call in progress

  // Buffers of one call: known to Abort while they live, waited on with the call's one deadline.
  class Call {
   public:
    explicit Call(Impl* impl) : impl_(impl), deadline_(Clock::now() + impl->config.timeout) {}
    ~Call() {
      std::lock_guard<std::mutex> lock(impl_->mu);
      impl_->active.clear();
    }

    Buffer* Add(void* data, size_t bytes) {
      buffers_.push_back(impl_->context->createUnboundBuffer(data, bytes));
      std::lock_guard<std::mutex> lock(impl_->mu);
      impl_->active.push_back(buffers_.back().get());
      return buffers_.back().get();
    }
    void WaitSends(Buffer* buffer, int64_t count) {
      for (; count > 0; --count) Check(buffer->waitSend(nullptr, Remaining()));
    }
    void WaitReceives(Buffer* buffer, int64_t count) {
      for (; count > 0; --count) Check(buffer->waitRecv(nullptr, Remaining()));
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

    Impl* const impl_;
    const Clock::time_point deadline_;
    std::vector<std::unique_ptr<Buffer>> buffers_;
  };

  int world() const { return config.world_size; }
  bool Aborted() {
    std::lock_guard<std::mutex> lock(mu);
    return aborted;
  }

  absl::Status Mesh(Rendezvous* rendezvous);
  absl::Status Verify();
  template <typename T>
  void ExchangeDirect(T* data, int64_t n);
  template <typename T>
  void ExchangeScattered(T* data, int64_t n);
  template <typename T>
  absl::Status AllReduce(T* data, int64_t n, std::string_view type);
  template <typename Fn>
  absl::Status Run(std::string_view operation, int64_t n, std::string_view type, Fn fn);
};

absl::Status Collectives::Impl::Mesh(Rendezvous* rendezvous) {
  StoreAdapter store(rendezvous, Clock::now() + config.timeout);
  try {
    gloo::transport::tcp::attr attr(config.interface_address.c_str());
    auto device = gloo::transport::tcp::CreateDevice(attr);
    auto mesh = std::make_shared<gloo::rendezvous::Context>(config.rank, config.world_size);
    // Gloo waits five times the context's timeout for one pair to connect.
    mesh->setTimeout(std::max(config.timeout / 5, std::chrono::milliseconds(1)));
    mesh->connectFullMesh(store, device);
    context = std::move(mesh);
  } catch (const std::exception& e) {
    if (!store.status().ok()) {
      return absl::Status(store.status().code(),
                          absl::StrCat("rank ", config.rank, " of ", config.world_size,
                                       ", forming the group: ", store.status().message()));
    }
    return absl::UnavailableError(absl::StrCat("rank ", config.rank, " of ", config.world_size,
                                               " at ", config.interface_address,
                                               ", forming the group: ", e.what()));
  }
  for (auto& half : scratch) half.resize(kSlotBytes * config.world_size);
  return absl::OkStatus();
}

// Sums a vector to which rank r adds r + 1 at index r: every element must be its index + 1.
absl::Status Collectives::Impl::Verify() {
  std::vector<double> ids(world(), 0.0);
  ids[config.rank] = config.rank + 1;
  RETURN_IF_ERROR(AllReduce(ids.data(), world(), "float64"));
  for (int r = 0; r < world(); ++r) {
    if (ids[r] != r + 1) {
      return absl::InternalError(
          absl::StrCat("rank ", config.rank, ": the all-reduce of rank ids gave ", ids[r] - 1,
                       " for rank ", r, "; two processes took the same rank"));
    }
  }
  ordinal = 0;
  return absl::OkStatus();
}

template <typename T>
void Collectives::Impl::ExchangeDirect(T* data, int64_t n) {
  Call call(this);
  const size_t bytes = n * sizeof(T);
  Buffer* mine = call.Add(data, bytes);
  Buffer* theirs = call.Add(scratch[0].data(), scratch[0].size());
  const uint64_t tag = next_tag++;
  std::vector<T*> parts(world());
  for (int r = 0; r < world(); ++r) {
    parts[r] = reinterpret_cast<T*>(scratch[0].data() + r * kSlotBytes);
    if (r != config.rank) theirs->recv(r, tag, r * kSlotBytes, bytes);
  }
  for (int r = 0; r < world(); ++r) {
    if (r != config.rank) mine->send(r, tag, 0, bytes);
  }
  parts[config.rank] = data;
  call.WaitReceives(theirs, world() - 1);
  call.WaitSends(mine, world() - 1);  // before the sum is written over what is being sent
  AddInRankOrder(parts, n);
  if (config.rank != 0) std::memcpy(data, parts[0], bytes);
}

template <typename T>
void Collectives::Impl::ExchangeScattered(T* data, int64_t n) {
  Call call(this);
  Buffer* mine = call.Add(data, n * sizeof(T));
  const std::array<Buffer*, 2> theirs = {call.Add(scratch[0].data(), scratch[0].size()),
                                         call.Add(scratch[1].data(), scratch[1].size())};
  const int64_t segment = static_cast<int64_t>(kSlotBytes / sizeof(T)) * world();
  const int64_t segments = (n + segment - 1) / segment;
  const uint64_t tags = next_tag;
  next_tag += 2 * segments;
  // Element where rank r's chunk of segment s begins.
  const auto begin = [&](int64_t s, int r) {
    const int64_t first = s * segment, length = std::min(segment, n - first);
    return first + length * r / world();
  };
  const auto for_peers = [&](auto fn) {
    for (int step = 1; step < world(); ++step) fn((config.rank + step) % world());
  };
  const auto chunk_bytes = [&](int64_t s, int r) {
    return static_cast<size_t>(begin(s, r + 1) - begin(s, r)) * sizeof(T);
  };
  // Every rank's part of my chunk comes into a slot of its own; their chunks of my data go out.
  const auto post_scatter = [&](int64_t s) {
    for_peers([&](int r) {
      theirs[s % 2]->recv(r, tags + 2 * s, r * kSlotBytes, chunk_bytes(s, config.rank));
    });
    for_peers(
        [&](int r) { mine->send(r, tags + 2 * s, begin(s, r) * sizeof(T), chunk_bytes(s, r)); });
  };
  post_scatter(0);
  for (int64_t s = 0; s < segments; ++s) {
    if (s + 1 < segments) post_scatter(s + 1);
    call.WaitReceives(theirs[s % 2], world() - 1);
    std::vector<T*> parts(world());
    for (int r = 0; r < world(); ++r) {
      parts[r] = reinterpret_cast<T*>(scratch[s % 2].data() + r * kSlotBytes);
    }
    T* const own = parts[config.rank] = data + begin(s, config.rank);
    AddInRankOrder(parts, begin(s, config.rank + 1) - begin(s, config.rank));
    if (config.rank != 0) std::memcpy(own, parts[0], chunk_bytes(s, config.rank));
    // A peer sends its sum only after it has all of my part, so receiving over it is safe.
    for_peers([&](int r) {
      mine->recv(r, tags + 2 * s + 1, begin(s, r) * sizeof(T), chunk_bytes(s, r));
    });
    for_peers([&](int r) {
      mine->send(r, tags + 2 * s + 1, begin(s, config.rank) * sizeof(T),
                 chunk_bytes(s, config.rank));
    });
  }
  call.WaitReceives(mine, segments * (world() - 1));
  call.WaitSends(mine, 2 * segments * (world() - 1));
}

// The boundary below which Gloo throws.
template <typename Fn>
absl::Status Collectives::Impl::Run(std::string_view operation, int64_t n, std::string_view type,
                                    Fn fn) {
  const auto name = [&] {
    return absl::StrCat("collective #", ordinal.load() + 1, " (", std::string(operation), " of ", n,
                        " ", std::string(type), "), rank ", config.rank, " of ", config.world_size);
  };
  if (Aborted()) return absl::CancelledError(absl::StrCat(name(), ": the group was aborted"));
  if (!failure.ok()) return failure;
  if (world() > 1) {
    try {
      fn();
    } catch (const std::exception& e) {
      if (Aborted()) return absl::CancelledError(absl::StrCat(name(), ": the group was aborted"));
      failure = absl::UnavailableError(absl::StrCat(name(), ": ", e.what()));
      context->closeConnections();  // the other ranks learn it now, not at their timeout
      return failure;
    }
  }
  ++ordinal;
  return absl::OkStatus();
}

template <typename T>
absl::Status Collectives::Impl::AllReduce(T* data, int64_t n, std::string_view type) {
  return Run("all_reduce", n, type, [&] {
    if (n == 0) return;
    if (n * sizeof(T) <= kDirectBytes) {
      ExchangeDirect(data, n);
    } else {
      ExchangeScattered(data, n);
    }
  });
}

Collectives::Collectives() : impl_(std::make_unique<Impl>()) {}

Collectives::~Collectives() {
  if (impl_->context != nullptr) impl_->context->closeConnections();
}

absl::StatusOr<std::unique_ptr<Collectives>> Collectives::Form(const GroupConfig& config,
                                                               Rendezvous* rendezvous) {
  if (config.world_size < 1 || config.rank < 0 || config.rank >= config.world_size) {
    return absl::InvalidArgumentError(absl::StrCat(
        "rank ", config.rank, " of world size ", config.world_size, ": expected 0 <= rank < size"));
  }
  std::unique_ptr<Collectives> group(new Collectives);
  group->impl_->config = config;
  if (config.world_size > 1) {
    RETURN_IF_ERROR(group->impl_->Mesh(rendezvous));
    RETURN_IF_ERROR(group->impl_->Verify());
  }
  return group;
}

absl::Status Collectives::AllReduceSum(float* data, int64_t n) {
  return impl_->AllReduce(data, n, "float32");
}

absl::Status Collectives::AllReduceSum(double* data, int64_t n) {
  return impl_->AllReduce(data, n, "float64");
}

absl::Status Collectives::Barrier() {
  return impl_->Run("barrier", 1, "float32", [this] {
    float token = 0.0f;
    impl_->ExchangeDirect(&token, 1);
  });
}

void Collectives::Abort() {
  std::lock_guard<std::mutex> lock(impl_->mu);
  impl_->aborted = true;
  for (auto* buffer : impl_->active) {
    buffer->abortWaitRecv();
    buffer->abortWaitSend();
  }
  if (impl_->context != nullptr) impl_->context->closeConnections();
}

int Collectives::rank() const { return impl_->config.rank; }
int Collectives::world_size() const { return impl_->config.world_size; }
uint64_t Collectives::ordinal() const { return impl_->ordinal; }

}  // namespace coxswain::comm
