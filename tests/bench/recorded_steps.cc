#include "tests/bench/recorded_steps.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <optional>
#include <set>

#include <nlohmann/json.hpp>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "common/gpu_table.h"

namespace coxswain::bench {
namespace {

using Json = nlohmann::json;

constexpr const char* kState = "precision: {master_weights: bfloat16, gradients: bfloat16}";

// Those of bench/gang_jobs.py.
std::vector<Row> GangRows() {
  const auto row = [](const char* name, const char* model, int64_t bins, int64_t steps,
                      int64_t length = 1024) {
    return Row{.name = name,
               .model = model,
               .sequence_len = length,
               .micro_bins = bins,
               .micro_steps = steps};
  };
  std::vector<Row> rows = {row("0.5b_full", "0.5b", 32, 4),
                           row("0.5b_full_x1", "0.5b", 32, 1),
                           row("0.5b_full_zero3", "0.5b", 32, 4),
                           row("7b_full", "7b", 4, 16),
                           row("7b_full_x1", "7b", 8, 1),
                           row("7b_full_zero3", "7b", 4, 16),
                           row("7b_lora", "7b", 8, 1),
                           row("7b_full_512", "7b", 16, 4, 512),
                           row("llama8b_full_512", "llama31_8b", 16, 4, 512),
                           row("llama8b_full_8192", "llama31_8b", 1, 8, 8192),
                           row("30b_a3b_full", "qwen3_30b_a3b", 4, 4, 4096)};
  for (Row& r : rows) {
    if (r.name == "7b_lora") r.lora_rank = 16;
    if (r.lora_rank == 0 && r.model != "0.5b") r.settings.emplace_back(kState);
    if (r.name == "30b_a3b_full") r.optimizer = "adamw_8bit";
  }
  return rows;
}

std::optional<Row> RowNamed(std::string name) {
  name = std::string(absl::StripSuffix(name, ", without balance"));
  for (const auto& rows : {Rows("cuda"), GangRows()}) {
    for (const Row& row : rows) {
      if (row.name == name) return row;
    }
  }
  return std::nullopt;
}

// The GPU that a text names, by any name of the table.
std::string GpuIn(const std::string& text) {
  for (const GpuKind& kind : KnownGpus()) {
    for (const std::string_view name : kind.driver_names) {
      if (kind.rates && text.find(name) != std::string::npos) return std::string(kind.name);
    }
  }
  return "";
}

std::string Text(const Json& object, const char* key) {
  return object.contains(key) && object[key].is_string() ? object[key].get<std::string>() : "";
}

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

// Reads one file.
class Reader {
 public:
  Reader(const std::filesystem::path& path, std::vector<Recorded>* out)
      : file_(path.filename().string()), out_(out) {
    const Json root = Json::parse(std::ifstream(path));
    for (const char* key : {"device", "machine", "remark"}) {
      if (root.is_object() && gpu_.empty()) gpu_ = GpuIn(Text(root, key));
    }
    Walk(root, "");
  }

 private:
  void Walk(const Json& value, const std::string& path) {
    if (value.is_array()) {
      for (size_t i = 0; i < value.size(); ++i) Walk(value[i], absl::StrCat(path, "[", i, "]"));
    }
    if (!value.is_object()) return;
    if (!Text(value, "row").empty()) return Add(value, path);
    for (const auto& [key, child] : value.items()) {
      Walk(child, path.empty() ? key : absl::StrCat(path, ".", key));
    }
  }

  Recorded Of(const Json& object, const std::string& path) const {
    Recorded found{.name = absl::StrCat(file_, " ", path, " ", Text(object, "row")),
                   .file = file_,
                   .gpu = GpuIn(Text(object, "fingerprint"))};
    if (found.gpu.empty()) found.gpu = gpu_;
    found.row = RowNamed(Text(object, "row")).value_or(Row{});
    return found;
  }

  void Add(const Json& object, const std::string& path) {
    if (object.contains("gang")) return AddGang(object, path);
    if (AddTurns(object, path)) return;
    Recorded found = Of(object, path);
    if (object.contains("layout")) found.milliseconds = object.value("ms_per_step", 0.0);
    TakeSettings(object, &found);
    out_->push_back(std::move(found));
  }

  // Of builds or settings in turns: what the engine of the newer build, or of the setting that
  // stayed, has taken.
  bool AddTurns(const Json& object, const std::string& path) {
    bool added = false;
    for (const auto& [key, suffix] :
         {std::pair{"new", ""}, {"one_stream", ""}, {"r16", ""}, {"r64", "_r64"}}) {
      if (!object.contains(key)) continue;
      Recorded found = Of(object, path);
      absl::StrAppend(&found.name, " .", key);
      found.row = RowNamed(Text(object, "row") + suffix).value_or(Row{});
      const Json& turns = object[key];
      found.milliseconds = turns.is_object() ? turns.value("ms_per_step", 0.0)
                                             : 1e3 * static_cast<double>(Slots(found.row)) /
                                                   Median(turns.get<std::vector<double>>());
      out_->push_back(std::move(found));
      added = true;
    }
    return added;
  }

  // Tokens of a step whose documents fill their bins.
  static int64_t Slots(const Row& row) {
    return row.micro_bins * row.micro_steps * row.sequence_len;
  }

  // What the plan of today must take from the record: the level of recomputation was a choice of a
  // planner before it, and an ablation's strategy of packing is not in the name of the row.
  static void TakeSettings(const Json& object, Recorded* found) {
    std::vector<std::string>& settings = found->row.settings;
    const auto has = [&settings](const char* key) {
      return std::ranges::any_of(
          settings, [key](const std::string& line) { return absl::StartsWith(line, key); });
    };
    if (object.contains("layout") && !has("recompute:")) {
      settings.push_back(absl::StrCat("recompute: ", Text(object["layout"], "recompute")));
    }
    if (object.contains("strategy")) {
      settings.push_back(absl::StrCat("packing: {strategy: ", Text(object, "strategy"), "}"));
    }
    std::vector<std::string> without = object.value("without", std::vector<std::string>{});
    std::erase(without, "balance");
    found->without = absl::StrJoin(without, ", ");
  }

  // Of a gang's settings those of FP8, as part of the line of precision.
  static void ComputeInFp8(const std::vector<std::string>& settings, Row* row) {
    if (!std::ranges::count(settings, "precision.compute=fp8")) return;
    std::vector<std::string> fp8;
    for (const std::string& line : settings) {
      absl::string_view rest = line;
      if (!absl::ConsumePrefix(&rest, "precision.fp8.")) continue;
      fp8.push_back(absl::StrReplaceAll(rest, {{"=", ": "}}));
    }
    const std::string words = absl::StrCat("compute: fp8, fp8: {", absl::StrJoin(fp8, ", "), "}");
    const std::string start = "precision: {";
    for (std::string& line : row->settings) {
      if (absl::StartsWith(line, start)) {
        line.insert(start.size(), words + ", ");
        return;
      }
    }
    row->settings.push_back(absl::StrCat(start, words, "}"));
  }

  void AddGang(const Json& object, const std::string& path) {
    Recorded found = Of(object, path);
    const std::string name = found.name;
    Row one = found.row;
    Row& row = found.row;
    row.workers = object.value("gpus", int64_t{2});
    std::vector<std::string> parallelism;
    const bool zero3 = absl::EndsWith(row.name, "_zero3") || row.name == "30b_a3b_full";
    if (zero3) parallelism.emplace_back("zero: 3");
    const auto settings = object.value("settings", std::vector<std::string>{});
    ComputeInFp8(settings, &row);
    for (const std::string& line : settings) {
      if (line == "parallelism.zero=3") parallelism.emplace_back("zero: 3");
      if (line == "parallelism.resident_blocks=2") parallelism.emplace_back("resident_blocks: 2");
      if (line == "train.micro_batch_size=32") {
        row.micro_steps = row.micro_steps * row.micro_bins / 32;
        row.micro_bins = 32;
      }
    }
    const auto add = [&](const char* key, Row planned, const std::vector<std::string>& lines) {
      if (!object.contains(key) || !object[key].is_object()) return;
      if (!lines.empty()) {
        planned.settings.push_back(absl::StrCat("parallelism: {", absl::StrJoin(lines, ", "), "}"));
      }
      found.name = absl::StrCat(name, " .", key);
      found.milliseconds = object[key].value("ms_per_step", 0.0);
      found.row = std::move(planned);
      out_->push_back(found);
    };
    const Row gang = row;
    add("gang", gang, parallelism);
    add("single", one, {});
    parallelism.emplace_back("overlap: false");
    add("overlap_off", gang, parallelism);
  }

  const std::string file_;
  std::string gpu_;
  std::vector<Recorded>* const out_;
};

}  // namespace

std::vector<Recorded> ReadRecorded(const std::string& directory) {
  std::set<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(directory)) {
    if (entry.path().extension() == ".json") files.insert(entry.path());
  }
  std::vector<Recorded> all;
  for (const std::filesystem::path& file : files) Reader(file, &all);
  return all;
}

}  // namespace coxswain::bench
