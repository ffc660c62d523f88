#include "controller/data/prepare/cache_entry.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <system_error>
#include <thread>
#include <utility>

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "common/faults/fault_point.h"
#include "common/files/durable_file.h"
#include "common/files/read_file.h"
#include "common/posix_status.h"
#include "common/status_macros.h"
#include "controller/data/early_end.h"

namespace coxswain::data {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(DatasetStats, records_read, documents, dropped_too_long,
                                   truncated, bad_records, no_target, tokens, targets,
                                   longest_document)

namespace {

namespace fs = std::filesystem;

constexpr char kStatsFile[] = "stats.json";
constexpr auto kLockPoll = std::chrono::milliseconds(50);

absl::StatusOr<nlohmann::json> ReadStats(const std::string& path) {
  ASSIGN_OR_RETURN(const std::string text, ReadFile(path, kMaxConfigBytes));
  nlohmann::json stats = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!stats.is_object() || !stats.contains("train")) {
    return absl::DataLossError(absl::StrCat(path, " is damaged"));
  }
  return stats;
}

// `split`, counts of pairs, of classes and of turns came later than the others: an entry without
// them was made before there were such documents. The largest id of one that does not say it is
// looked for.
constexpr std::pair<const char*, int64_t TurnCounts::*> kTurnCounts[] = {
    {"rewritten", &TurnCounts::rewritten},
    {"as_said", &TurnCounts::as_said},
    {"unended", &TurnCounts::unended},
    {"without_calls", &TurnCounts::without_calls},
    {"without_thought", &TurnCounts::without_thought},
};

nlohmann::json StatsJson(const DatasetStats& stats) {
  nlohmann::json json = stats;
  json["split"] = stats.split;
  json["equal_sides"] = stats.equal_sides;
  json["equal_once_cut"] = stats.equal_once_cut;
  json["largest_id"] = stats.largest_id;
  if (!stats.classes.empty()) json["classes"] = stats.classes;
  for (const auto& [name, count] : kTurnCounts) json[name] = stats.turns.*count;
  return json;
}

int64_t LargestId(const TokenStore& store) {
  int64_t largest = -1;
  for (int64_t document = 0; document < store.num_documents(); ++document) {
    for (const int32_t id : store.tokens(document)) {
      largest = std::max(largest, static_cast<int64_t>(id));
    }
  }
  return largest;
}

absl::StatusOr<DatasetStats> StatsOf(const nlohmann::json& stats, const char* part,
                                     const TokenStore& store) {
  DatasetStats result;
  try {
    stats.at(part).get_to(result);
    result.split = stats.at(part).value("split", int64_t{0});
    result.equal_sides = stats.at(part).value("equal_sides", int64_t{0});
    result.equal_once_cut = stats.at(part).value("equal_once_cut", int64_t{0});
    result.classes = stats.at(part).value("classes", std::vector<int64_t>());
    result.largest_id = stats.at(part).contains("largest_id")
                            ? stats.at(part).at("largest_id").get<int64_t>()
                            : LargestId(store);
    for (const auto& [name, count] : kTurnCounts) {
      result.turns.*count = stats.at(part).value(name, int64_t{0});
    }
  } catch (const nlohmann::json::exception& error) {
    return absl::DataLossError(absl::StrCat(kStatsFile, " is damaged: ", error.what()));
  }
  if (result.documents != store.num_documents() || result.tokens != store.num_tokens() ||
      result.targets != store.num_targets()) {
    return absl::DataLossError(absl::StrCat(kStatsFile, " does not belong to ", store.path()));
  }
  return result;
}

// Entries of earlier rules have none.
absl::StatusOr<std::vector<Findings>> ReadFindings(const nlohmann::json& stats) {
  std::vector<Findings> findings;
  if (!stats.contains("findings")) return findings;
  try {
    for (const nlohmann::json& of_source : stats["findings"]) {
      findings.push_back(FindingsOf(of_source));
    }
  } catch (const nlohmann::json::exception& error) {
    return absl::DataLossError(absl::StrCat(kStatsFile, " is damaged: ", error.what()));
  }
  return findings;
}

absl::StatusOr<std::unique_ptr<TokenStore>> OpenVerified(const std::string& path,
                                                         const Cancelled& cancelled) {
  absl::StatusOr<std::unique_ptr<TokenStore>> store = TokenStore::Open(path);
  if (absl::IsNotFound(store.status())) return absl::DataLossError(path + " is missing");
  RETURN_IF_ERROR(store.status());
  RETURN_IF_ERROR((*store)->VerifyDocuments(cancelled));
  return store;
}

absl::Status RemoveAll(const std::string& path) {
  std::error_code error;
  fs::remove_all(path, error);
  return error ? ErrnoStatus(error.value(), "remove", path) : absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<CacheEntry>> CacheEntry::Lock(const std::string& cache_dir,
                                                             const std::string& content_hash,
                                                             const Cancelled& cancelled) {
  std::error_code error;
  fs::create_directories(cache_dir, error);
  if (error) return OfTokenCache(ErrnoStatus(error.value(), "create", cache_dir));
  const std::string directory = absl::StrCat(cache_dir, "/", content_hash);
  const std::string lock = directory + ".lock";
  const int fd = open(lock.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (fd < 0) return OfTokenCache(ErrnoStatus(errno, "create", lock));
  std::unique_ptr<CacheEntry> entry(new CacheEntry(directory, directory + ".building", fd));
  while (flock(fd, LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK && errno != EINTR) return ErrnoStatus(errno, "lock", lock);
    RETURN_IF_ERROR(CheckCancelled(cancelled));
    std::this_thread::sleep_for(kLockPoll);
  }
  return entry;
}

CacheEntry::~CacheEntry() {
  std::error_code ignored;
  fs::remove_all(building_, ignored);
  close(lock_fd_);
}

absl::StatusOr<PreparedData> CacheEntry::Load(const Cancelled& cancelled) const {
  ASSIGN_OR_RETURN(const nlohmann::json stats,
                   ReadStats(absl::StrCat(directory_, "/", kStatsFile)));
  PreparedData data;
  ASSIGN_OR_RETURN(data.train, OpenVerified(absl::StrCat(directory_, "/", kTrainFile), cancelled));
  ASSIGN_OR_RETURN(data.train_stats, StatsOf(stats, "train", *data.train));
  if (stats.contains("eval")) {
    ASSIGN_OR_RETURN(data.eval, OpenVerified(absl::StrCat(directory_, "/", kEvalFile), cancelled));
    ASSIGN_OR_RETURN(data.eval_stats, StatsOf(stats, "eval", *data.eval));
  }
  ASSIGN_OR_RETURN(data.findings, ReadFindings(stats));
  return data;
}

absl::StatusOr<std::string> CacheEntry::BeginBuild() {
  RETURN_IF_ERROR(RemoveAll(building_));
  std::error_code error;
  fs::create_directory(building_, error);
  if (error) return ErrnoStatus(error.value(), "create", building_);
  return building_;
}

absl::Status CacheEntry::Publish(const DatasetStats& train, const DatasetStats* eval,
                                 const std::vector<Findings>& findings) {
  nlohmann::json stats = {{"train", StatsJson(train)}};
  if (eval != nullptr) stats["eval"] = StatsJson(*eval);
  for (const Findings& of_source : findings)
    stats["findings"].push_back(nlohmann::json(FindingsJson(of_source)));
  RETURN_IF_ERROR(WriteFileDurably(absl::StrCat(building_, "/", kStatsFile), stats.dump(2) + "\n"));
  RETURN_IF_ERROR(fault::Reach(fault::Point::kTokensPublish));
  RETURN_IF_ERROR(RemoveAll(directory_));
  std::error_code error;
  fs::rename(building_, directory_, error);
  if (!error) fault::Pass(fault::Point::kTokensKept);
  return error ? ErrnoStatus(error.value(), "rename", building_) : absl::OkStatus();
}

}  // namespace coxswain::data
