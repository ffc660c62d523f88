// Collectives over Gloo's TCP transport: one mesh of all ranks, on which the communicators differ
// by members and tags. What is exchanged stands in gloo_exchange.cc.
#include <algorithm>
#include <array>
#include <atomic>
#include <exception>
#include <optional>
#include <utility>
#include <vector>

#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/store.h>
#include <gloo/transport/tcp/device.h>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/mutex.h"
#include "common/status_macros.h"
#include "worker/comm/collectives.h"
#include "worker/comm/gloo_exchange.h"
#include "worker/comm/members.h"
#include "worker/comm/rank_order_sum.h"

namespace coxswain::comm {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kTagBits = 56;  // of a message in its communicator

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

const char* TypeName(kernels::DType dtype) {
  return dtype == kernels::DType::kFloat32 ? "float32" : "bfloat16";
}

std::string Aborted(const std::string& call) {
  return absl::StrCat(call, ": the group was aborted");
}

}  // namespace

struct Collectives::Impl {
  GroupConfig config;
  std::array<GlooExchange::Channel, kCommunicators.size()> channels;
  std::optional<GlooExchange> exchange;  // none in a group of one

  mutable Mutex mu;
  bool aborted ABSL_GUARDED_BY(mu) = false;
  absl::Status failure ABSL_GUARDED_BY(mu);  // of the collective that broke the group
  uint64_t started ABSL_GUARDED_BY(mu) = 0, finished ABSL_GUARDED_BY(mu) = 0;
  std::string operation ABSL_GUARDED_BY(mu);  // in progress
  Clock::time_point since ABSL_GUARDED_BY(mu);
  std::array<CommunicatorProgress, kCommunicators.size()> reached ABSL_GUARDED_BY(mu);

  GlooExchange::Channel& channel(Communicator comm) { return channels[static_cast<int>(comm)]; }

  absl::Status Mesh(Rendezvous* rendezvous);
  absl::Status Verify(Collectives& group);
  absl::Status Begin(Communicator comm, std::string name);
  absl::Status End(const std::exception* error);
  template <typename Fn>
  absl::Status Run(Communicator comm, const char* what, int64_t n, const char* type, Fn fn);
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
    exchange.emplace(std::move(mesh), config.timeout);
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
  return absl::OkStatus();
}

// Sums a vector to which each rank adds its number + 1 at its place.
absl::Status Collectives::Impl::Verify(Collectives& group) {
  for (Communicator comm : kCommunicators) {
    const Members& members = channel(comm).members;
    std::vector<double> ids(members.ranks.size(), 0.0);
    ids[members.index] = config.rank + 1;
    RETURN_IF_ERROR(group.AllReduceSum(comm, ids.data(), members.size(), nullptr));
    for (int r = 0; r < members.size(); ++r) {
      if (ids[r] == members.ranks[r] + 1) continue;
      return absl::InternalError(absl::StrCat("rank ", config.rank, ", communicator ", NameOf(comm),
                                              ": the all-reduce of rank ids gave ", ids[r] - 1,
                                              " for rank ", members.ranks[r],
                                              "; two processes took the same rank"));
    }
  }
  MutexLock lock(mu);
  started = finished = 0;
  for (Communicator comm : kCommunicators) {
    reached[static_cast<int>(comm)] = {.name = NameOf(comm), .size = channel(comm).members.size()};
  }
  return absl::OkStatus();
}

absl::Status Collectives::Impl::Begin(Communicator comm, std::string name) {
  MutexLock lock(mu);
  if (aborted) return absl::CancelledError(Aborted(CallName(finished + 1, name, config)));
  if (!failure.ok()) return failure;
  CommunicatorProgress& on = reached[static_cast<int>(comm)];
  on.started = ++started;
  on.operation = name;
  on.bytes = OperationBytes(name);
  operation = std::move(name);
  since = Clock::now();
  return absl::OkStatus();
}

absl::Status Collectives::Impl::End(const std::exception* error) {
  MutexLock lock(mu);
  const std::string name = std::exchange(operation, "");
  if (error == nullptr) {
    ++finished;
    for (CommunicatorProgress& on : reached) {
      if (on.started == started) on.finished = started;
    }
    return absl::OkStatus();
  }
  const std::string call = CallName(started, name, config);
  if (aborted) return absl::CancelledError(Aborted(call));
  const std::vector<int>& missing = exchange->missing();
  failure = absl::UnavailableError(absl::StrCat(call, ": ", error->what(),
                                                missing.empty() ? "" : "; waiting for rank ",
                                                absl::StrJoin(missing, ", ")));
  exchange->Close();  // the other ranks learn it now, not at their timeout
  return failure;
}

// The boundary below which Gloo throws.
template <typename Fn>
absl::Status Collectives::Impl::Run(Communicator comm, const char* what, int64_t n,
                                    const char* type, Fn fn) {
  RETURN_IF_ERROR(Begin(comm, OperationName(what, n, type, comm)));
  if (channel(comm).members.size() > 1 && n > 0) {
    try {
      fn(channel(comm));
    } catch (const std::exception& e) {
      return End(&e);
    }
  }
  return End(nullptr);
}

std::string Collectives::Fingerprint() { return "gloo"; }

Collectives::Collectives() : impl_(std::make_unique<Impl>()) {}

Collectives::~Collectives() {
  if (impl_->exchange.has_value()) impl_->exchange->Close();
}

absl::StatusOr<std::unique_ptr<Collectives>> Collectives::Form(const GroupConfig& config,
                                                               Rendezvous* rendezvous) {
  RETURN_IF_ERROR(CheckConfig(config));
  std::unique_ptr<Collectives> group(new Collectives);
  group->impl_->config = config;
  for (Communicator comm : kCommunicators) {
    GlooExchange::Channel& channel = group->impl_->channel(comm);
    channel.members = MembersOf(config, comm);
    channel.next_tag = static_cast<uint64_t>(comm) << kTagBits;
  }
  if (config.world_size > 1) {
    RETURN_IF_ERROR(group->impl_->Mesh(rendezvous));
    RETURN_IF_ERROR(group->impl_->Verify(*group));
  }
  return group;
}

absl::Status Collectives::AllReduceSum(Communicator comm, void* data, int64_t n,
                                       kernels::DType dtype, kernels::Stream*) {
  return impl_->Run(comm, "all_reduce", n, TypeName(dtype), [&](GlooExchange::Channel& channel) {
    if (dtype == kernels::DType::kFloat32) {
      impl_->exchange->AllReduce(channel, static_cast<float*>(data), n);
    } else {
      impl_->exchange->AllReduce(channel, static_cast<BFloat16*>(data), n);
    }
  });
}

absl::Status Collectives::AllReduceSum(Communicator comm, double* data, int64_t n,
                                       kernels::Stream*) {
  return impl_->Run(comm, "all_reduce", n, "float64", [&](GlooExchange::Channel& channel) {
    impl_->exchange->AllReduce(channel, data, n);
  });
}

absl::Status Collectives::ReduceScatterSum(Communicator comm, const void* send, void* receive,
                                           int64_t n, kernels::DType dtype, kernels::Stream*) {
  if (size(comm) == 1 && send != receive) {
    std::copy_n(static_cast<const char*>(send), n * kernels::DTypeBytes(dtype),
                static_cast<char*>(receive));
  }
  return impl_->Run(comm, "reduce_scatter", n, TypeName(dtype),
                    [&](GlooExchange::Channel& channel) {
                      if (dtype == kernels::DType::kFloat32) {
                        impl_->exchange->ReduceScatter(channel, static_cast<const float*>(send),
                                                       static_cast<float*>(receive), n);
                      } else {
                        impl_->exchange->ReduceScatter(channel, static_cast<const BFloat16*>(send),
                                                       static_cast<BFloat16*>(receive), n);
                      }
                    });
}

absl::Status Collectives::ReduceScatterAdd(Communicator comm, void* send, float* total, int64_t n,
                                           kernels::DType dtype, kernels::Stream* stream) {
  char* const own = static_cast<char*>(send) + rank(comm) * n * kernels::DTypeBytes(dtype);
  RETURN_IF_ERROR(ReduceScatterSum(comm, send, own, n, dtype, stream));
  if (dtype == kernels::DType::kFloat32) {
    const auto* sum = reinterpret_cast<const float*>(own);
    for (int64_t i = 0; i < n; ++i) total[i] += sum[i];
  } else {
    const auto* sum = reinterpret_cast<const BFloat16*>(own);
    for (int64_t i = 0; i < n; ++i) total[i] += sum[i];
  }
  return absl::OkStatus();
}

absl::Status Collectives::AllGatherBytes(Communicator comm, const void* send, void* receive,
                                         int64_t bytes, kernels::Stream*) {
  if (size(comm) == 1 && send != receive) {
    std::copy_n(static_cast<const char*>(send), bytes, static_cast<char*>(receive));
  }
  return impl_->Run(comm, "all_gather", bytes, "bytes", [&](GlooExchange::Channel& channel) {
    impl_->exchange->AllGather(channel, send, receive, bytes);
  });
}

absl::Status Collectives::Share(const std::vector<DeviceRegion>&) { return absl::OkStatus(); }

std::string Collectives::transport() const { return "Gloo"; }

std::string Collectives::fingerprint() const { return world_size() > 1 ? "transport=gloo" : ""; }

absl::Status Collectives::Barrier() {
  float token = 0.0f;
  return impl_->Run(
      Communicator::kWorld, "barrier", 1, "float32",
      [&](GlooExchange::Channel& channel) { impl_->exchange->AllReduce(channel, &token, 1); });
}

absl::Status Collectives::Poll() const {
  MutexLock lock(impl_->mu);
  if (impl_->aborted) return absl::CancelledError("the group was aborted");
  return impl_->failure;
}

Progress Collectives::progress() const {
  MutexLock lock(impl_->mu);
  Progress progress{
      .started = impl_->started, .finished = impl_->finished, .operation = impl_->operation};
  if (!impl_->operation.empty()) {
    progress.in_it_for =
        std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - impl_->since);
  }
  for (const CommunicatorProgress& on : impl_->reached) {
    if (on.size == 1) continue;
    progress.communicators.push_back(on);
    if (on.started > on.finished) progress.communicators.back().in_it_for = progress.in_it_for;
  }
  return progress;
}

void Collectives::Abort() {
  {
    MutexLock lock(impl_->mu);
    impl_->aborted = true;
  }
  if (impl_->exchange.has_value()) impl_->exchange->Abort();
}

int Collectives::rank() const { return impl_->config.rank; }
int Collectives::world_size() const { return impl_->config.world_size; }
int Collectives::rank(Communicator comm) const { return impl_->channel(comm).members.index; }
int Collectives::size(Communicator comm) const { return impl_->channel(comm).members.size(); }

}  // namespace coxswain::comm
