#include "controller/data/prepare/prepare.h"

#include <algorithm>
#include <span>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/config/rules/bin_capacity.h"
#include "common/status_macros.h"
#include "controller/data/class_labels.h"
#include "controller/data/documents/document_encoder.h"
#include "controller/data/documents/template_check.h"
#include "controller/data/early_end.h"
#include "controller/data/pipeline/ingest.h"
#include "controller/data/pipeline/unit_writer.h"
#include "controller/data/prepare/cache_entry.h"
#include "controller/data/prepare/content_hash.h"
#include "controller/data/sources/dataset_files.h"
#include "controller/data/sources/dataset_reader.h"
#include "controller/data/sources/resolve_formats.h"
#include "controller/data/sources/sampling.h"
#include "controller/text/templates/named_templates.h"
#include "controller/text/templates/turn_counts.h"
#include "controller/text/tokenizer/tokenizer.h"

namespace coxswain::data {
namespace {

template <typename T>
absl::StatusOr<T> Written(absl::StatusOr<T> made) {
  if (!made.ok()) return OfTokenCache(made.status());
  return made;
}

// Builds one cache entry from the datasets of a job.
class Builder {
 public:
  Builder(const config::JobSpec& job, const PrepareOptions& options, const Tokenizer& tokenizer)
      : job_(job), options_(options), tokenizer_(tokenizer) {
    if (job.classification.problem == "regression") return;
    const auto classes = static_cast<size_t>(job.classification.num_labels);
    for (Part* part : {&train_, &eval_}) part->stats.classes.assign(classes, 0);
  }

  absl::Status Build(CacheEntry& entry) {
    ASSIGN_OR_RETURN(const std::string directory, Written(entry.BeginBuild()));
    ASSIGN_OR_RETURN(train_.writer,
                     Written(UnitWriter::Create(job_, absl::StrCat(directory, "/", kTrainFile))));
    const bool evaluates = job_.val_set_size.value_or(0) > 0 || !job_.test_datasets.empty();
    if (evaluates) {
      ASSIGN_OR_RETURN(eval_.writer,
                       Written(UnitWriter::Create(job_, absl::StrCat(directory, "/", kEvalFile))));
    }
    CountBytes();
    RETURN_IF_ERROR(IngestTraining());
    RETURN_IF_ERROR(IngestTest());
    RETURN_IF_ERROR(train_.Finish(directory, kTrainFile, "the training set"));
    if (evaluates) RETURN_IF_ERROR(eval_.Finish(directory, kEvalFile, "the evaluation set"));
    return OfTokenCache(entry.Publish(train_.stats, evaluates ? &eval_.stats : nullptr, findings_));
  }

 private:
  // A store being written, and its statistics.
  struct Part {
    std::unique_ptr<UnitWriter> writer;
    DatasetStats stats;

    absl::Status Finish(const std::string& directory, const char* file, const char* name) {
      RETURN_IF_ERROR(OfTokenCache(writer->Finish()));
      ASSIGN_OR_RETURN(const auto store,
                       Written(TokenStore::Open(absl::StrCat(directory, "/", file))));
      stats.documents = store->num_documents();
      stats.tokens = store->num_tokens();
      stats.targets = store->num_targets();
      stats.longest_document = store->longest_document();
      if (stats.documents > 0) return absl::OkStatus();
      return absl::InvalidArgumentError(
          absl::StrCat(name, " has no trainable token: val_set_size or weights left none of ",
                       stats.records_read, " records in it"));
    }
  };

  void CountBytes() {
    for (const auto* datasets : {&job_.datasets, &job_.test_datasets}) {
      for (const config::DatasetSpec& dataset : *datasets) {
        // A file that is not there is reported where it is read.
        total_bytes_ += DatasetBytes(dataset).value_or(0);
      }
    }
  }

  absl::Status IngestTraining() {
    ASSIGN_OR_RETURN(const ValSplit split, ValSplit::Create(job_, options_.cancelled));
    for (size_t source = 0; source < job_.datasets.size(); ++source) {
      const config::DatasetSpec& dataset = job_.datasets[source];
      RETURN_IF_ERROR(IngestOne(dataset, [&](int64_t index) {
        const RecordId id = {static_cast<int32_t>(source), index};
        if (split.HoldsBack(id)) return IngestTarget{eval_.writer.get(), &eval_.stats, 1};
        return IngestTarget{train_.writer.get(), &train_.stats,
                            CopiesOf(job_.train.seed, id, dataset.weight)};
      }));
    }
    return absl::OkStatus();
  }

  absl::Status IngestTest() {
    for (const config::DatasetSpec& dataset : job_.test_datasets) {
      RETURN_IF_ERROR(IngestOne(dataset, [&](int64_t) {
        return IngestTarget{eval_.writer.get(), &eval_.stats, 1};
      }));
    }
    return absl::OkStatus();
  }

  absl::Status IngestOne(const config::DatasetSpec& dataset,
                         std::function<IngestTarget(int64_t)> route) {
    int64_t dataset_bytes = 0;
    IngestArgs args;
    args.findings = &findings_.emplace_back();
    args.job = &job_;
    args.dataset = &dataset;
    args.tokenizer = &tokenizer_;
    args.route = std::move(route);
    args.progress = [&](int64_t consumed_bytes) {
      dataset_bytes = consumed_bytes;
      Report(done_bytes_ + consumed_bytes);
    };
    args.cancelled = options_.cancelled;
    args.threads = options_.threads > 0
                       ? options_.threads
                       : std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
    RETURN_IF_ERROR(Ingest(args));
    done_bytes_ += dataset_bytes;
    return absl::OkStatus();
  }

  void Report(int64_t bytes) {
    if (!options_.progress || total_bytes_ == 0) return;
    options_.progress(
        std::min(1.0, static_cast<double>(bytes) / static_cast<double>(total_bytes_)));
  }

  const config::JobSpec& job_;
  const PrepareOptions& options_;
  const Tokenizer& tokenizer_;
  Part train_, eval_;
  std::vector<Findings> findings_;
  int64_t total_bytes_ = 0, done_bytes_ = 0;
};

constexpr size_t kShownPlaces = 10;  // of the records of a source

// Where a source is split into both parts, its findings are those of both.
struct PartSources {
  const char* name = "";  // "train" or "eval"
  std::span<const config::DatasetSpec> datasets;
  std::span<const Findings> findings;  // of each
  bool split = false;
};

PartSources SourcesOf(bool trained, const config::JobSpec& job, const PreparedData& data) {
  const bool split = data.eval != nullptr && job.test_datasets.empty();
  const std::span<const Findings> findings(data.findings);
  const size_t datasets = std::min(job.datasets.size(), findings.size());
  const char* const name = trained ? "train" : "eval";
  if (trained || split) return {name, job.datasets, findings.first(datasets), split};
  return {name, job.test_datasets, findings.subspan(datasets), split};
}

// "; such records: a.jsonl:3, 7, b.jsonl:1", of all sources of a part; empty: no places are known.
std::string SuchRecords(const PartSources& part, NoteKind kind) {
  std::string text;
  for (size_t i = 0; i < std::min(part.datasets.size(), part.findings.size()); ++i) {
    const auto files = ListDatasetFiles(part.datasets[i]);
    const std::string places =
        files.ok() ? PlacesOf(part.findings[i], kind, files->paths, kShownPlaces) : "";
    if (places.empty()) continue;
    const char* const before = part.split ? "; such records of both parts: " : "; such records: ";
    absl::StrAppend(&text, text.empty() ? before : ", ", places);
  }
  return text;
}

void WarnOfLosses(const PartSources& part, const DatasetStats& stats,
                  std::vector<std::string>* warnings) {
  const auto warn = [&](int64_t count, const char* what, NoteKind kind) {
    if (count == 0) return;
    warnings->push_back(absl::StrCat(part.name, ": ", count, " of ", stats.records_read,
                                     " records ", what, SuchRecords(part, kind)));
  };
  warn(stats.truncated, "were truncated to sequence_len", NoteKind::kTruncated);
  warn(stats.dropped_too_long, "were dropped: above sequence_len", NoteKind::kTooLong);
  warn(stats.bad_records, "were skipped: bad records", NoteKind::kBadRecord);
  warn(stats.equal_sides, "were dropped: chosen equals rejected", NoteKind::kEqualSides);
  warn(stats.equal_once_cut,
       "were dropped: chosen equals rejected once both are cut to "
       "sequence_len",
       NoteKind::kEqualOnceCut);
  for (const std::string& note : TurnNotes(stats.turns)) {
    warnings->push_back(absl::StrCat(part.name, ": ", note));
  }
  if (stats.split > 0 && stats.no_target > 0) {  // of them some are pieces of a record
    warnings->push_back(absl::StrCat(part.name, ": ", stats.no_target,
                                     " documents or pieces of split ones were dropped: no "
                                     "trainable token"));
  } else {
    warn(stats.no_target, "were dropped: no trainable token", NoteKind::kNoTarget);
  }
}

// Classes that the training set has no record of.
void WarnOfClasses(const config::JobSpec& job, const DatasetStats& train,
                   std::vector<std::string>* warnings) {
  const std::string missing = MissingClasses(ClassLabels(job.classification), train.classes);
  if (!missing.empty()) warnings->push_back(absl::StrCat("train: ", missing));
}

void WarnOfFindings(const config::JobSpec& job, const std::vector<Findings>& findings,
                    std::vector<std::string>* warnings) {
  auto of_source = findings.begin();
  for (const auto* datasets : {&job.datasets, &job.test_datasets}) {
    for (const config::DatasetSpec& dataset : *datasets) {
      if (of_source == findings.end()) return;
      for (std::string& warning : FindingWarnings(dataset.path, *of_source)) {
        warnings->push_back(std::move(warning));
      }
      ++of_source;
    }
  }
}

// Where a split was taken of a folder.
absl::Status TellChosenFiles(const config::JobSpec& job, std::vector<std::string>* warnings) {
  for (const auto* datasets : {&job.datasets, &job.test_datasets}) {
    for (const config::DatasetSpec& dataset : *datasets) {
      ASSIGN_OR_RETURN(const DatasetFiles files, ListDatasetFiles(dataset));
      if (!files.note.empty()) warnings->push_back(files.note);
    }
  }
  return absl::OkStatus();
}

// Tokens are made by this release's rules alone.
absl::Status CheckRules(const config::JobSpec& job, const PrepareOptions& options) {
  if (job.data_rules == config::kDataRules) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "the job was accepted by a release that tokenized records by other rules (data_rules ",
      job.data_rules, ", this release has ", config::kDataRules, "), and ", options.cache_dir,
      " has no tokens by those rules. Bring them back, or ",
      "submit the job again: it begins anew"));
}

absl::StatusOr<PreparedData> LoadOrBuild(const config::JobSpec& job, const PrepareOptions& options,
                                         const Tokenizer& tokenizer, const std::string& hash) {
  ASSIGN_OR_RETURN(auto entry, CacheEntry::Lock(options.cache_dir, hash, options.cancelled));
  absl::StatusOr<PreparedData> cached = entry->Load(options.cancelled);
  if (cached.ok()) {
    if (options.progress) options.progress(1.0);
    return cached;
  }
  RETURN_IF_ERROR(CheckCancelled(options.cancelled));
  RETURN_IF_ERROR(CheckRules(job, options));
  RETURN_IF_ERROR(Builder(job, options, tokenizer).Build(*entry));
  ASSIGN_OR_RETURN(PreparedData data, entry->Load(options.cancelled));
  if (!absl::IsNotFound(cached.status())) {
    data.warnings.push_back(
        absl::StrCat("prepared data in the cache was rebuilt: ", cached.status().message()));
  }
  return data;
}

// What the renderings of conversations depend on: the name of a named template, or the text of
// another; empty where there are none.
absl::StatusOr<std::string> TemplateInHash(const config::JobSpec& job, const Tokenizer& tokenizer) {
  const TemplateTokens tokens = TokensOf(tokenizer, job.model_path);
  const std::string name = ResolvedTemplateName(job, tokens);
  if (NamedTemplate(name) != nullptr) return name;
  bool conversations = false, prompts = false;
  for (const auto* datasets : {&job.datasets, &job.test_datasets}) {
    for (const config::DatasetSpec& dataset : *datasets) {
      conversations |= UsesChatTemplate(dataset);
      prompts |= MayUseChatTemplate(dataset);
    }
  }
  if (!conversations && !prompts) return std::string();
  const auto parsed = ConversationTemplate::Create(job, tokens);
  if (parsed.ok()) return parsed->source();
  if (conversations) return parsed.status();
  return std::string();  // prompts of text need none
}

// The ends on which targets of conversations depend; none where there are no conversations.
std::vector<std::string> EndsInHash(const config::JobSpec& job, const Tokenizer& tokenizer) {
  for (const auto* datasets : {&job.datasets, &job.test_datasets}) {
    for (const config::DatasetSpec& dataset : *datasets) {
      if (MayUseChatTemplate(dataset) || UsesChatTemplate(dataset)) {
        return TokensOf(tokenizer, job.model_path).ends;
      }
    }
  }
  return {};
}

void WarnOfKnownTokens(const config::JobSpec& job, const Tokenizer& tokenizer,
                       std::vector<std::string>* warnings) {
  const auto added = tokenizer.added();
  for (const std::string& token : job.added_tokens) {
    if (std::find(added.begin(), added.end(), token) != added.end()) continue;
    warnings->push_back(absl::StrCat("base_model.added_tokens: \"", token,
                                     "\" is in the tokenizer already, as id ",
                                     *tokenizer.TokenToId(token), "; it stays what it is"));
  }
}

}  // namespace

absl::StatusOr<PreparedData> PrepareData(const config::JobSpec& given,
                                         const PrepareOptions& options) {
  ASSIGN_OR_RETURN(const auto tokenizer, Tokenizer::Load(given.model_path, given.added_tokens));
  ASSIGN_OR_RETURN(const config::JobSpec job, ResolveFormats(given));
  ASSIGN_OR_RETURN(const std::string chat_template, TemplateInHash(job, *tokenizer));
  ASSIGN_OR_RETURN(const std::string hash,
                   ContentHash(job, tokenizer->fingerprint(), chat_template,
                               EndsInHash(job, *tokenizer), options.cancelled));
  ASSIGN_OR_RETURN(PreparedData data, LoadOrBuild(job, options, *tokenizer, hash));
  data.content_hash = hash;
  data.documents_per_unit = config::DocumentsPerUnit(job);
  data.vocab_size = tokenizer->vocab_size();
  data.added_tokens = static_cast<int64_t>(tokenizer->added().size());
  data.pad_token = tokenizer->pad_id();
  WarnOfKnownTokens(given, *tokenizer, &data.warnings);
  RETURN_IF_ERROR(TellChosenFiles(job, &data.warnings));
  ASSIGN_OR_RETURN(std::vector<std::string> warnings, CheckTemplates(job, *tokenizer));
  data.warnings.insert(data.warnings.end(), warnings.begin(), warnings.end());
  WarnOfFindings(job, data.findings, &data.warnings);
  WarnOfLosses(SourcesOf(/*trained=*/true, job, data), data.train_stats, &data.warnings);
  WarnOfClasses(job, data.train_stats, &data.warnings);
  if (data.eval != nullptr) {
    WarnOfLosses(SourcesOf(/*trained=*/false, job, data), data.eval_stats, &data.warnings);
  }
  return data;
}

}  // namespace coxswain::data
