#include "controller/data/pipeline/ingest.h"

#include <algorithm>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "controller/data/class_labels.h"
#include "controller/data/documents/document_encoder.h"
#include "controller/data/documents/loss_notes.h"
#include "controller/data/early_end.h"
#include "controller/data/pipeline/ordered_pipeline.h"
#include "controller/data/pipeline/record_batch.h"
#include "controller/data/readers/record_parser.h"
#include "controller/data/sources/dataset_reader.h"

namespace coxswain::data {
namespace {

constexpr size_t kBatchBytes = size_t{256} << 10;

struct EncodedBatch {
  struct Item {
    std::string_view path;
    int64_t line = 0;
    absl::StatusOr<std::vector<EncodedDocument>> documents;  // error: a bad record
    RecordNotes notes;
  };
  std::vector<Item> items;
  int64_t first_index = 0;
  int64_t consumed_bytes = 0;
  absl::Status error;
};

absl::StatusOr<std::vector<EncodedDocument>> EncodeRecord(const DocumentEncoder& encoder,
                                                          RecordParser& parser,
                                                          const RecordBatch& batch,
                                                          const RecordBatch::Item& item,
                                                          RecordNotes* notes) {
  if (!item.error.empty()) return absl::InvalidArgumentError(item.error);
  ASSIGN_OR_RETURN(const Record record, parser.Parse(batch.json(item), notes));
  return encoder.Encode(record, notes);
}

EncodedBatch EncodeBatch(const DocumentEncoder& encoder, RecordParser& parser,
                         const RecordBatch& batch) {
  EncodedBatch encoded;
  encoded.first_index = batch.first_index;
  encoded.consumed_bytes = batch.consumed_bytes;
  encoded.error = batch.error;
  encoded.items.reserve(batch.items.size());
  for (const RecordBatch::Item& item : batch.items) {
    RecordNotes notes;
    auto documents = EncodeRecord(encoder, parser, batch, item, &notes);
    encoded.items.push_back({item.path, item.line, std::move(documents), std::move(notes)});
  }
  return encoded;
}

// The consuming end: counts and writes documents in order of records.
class Sink {
 public:
  // `files`: those of the dataset, of which the paths of batches are views.
  Sink(const IngestArgs& args, const std::vector<std::string>& files)
      : args_(args), files_(files), labels_(args.job->classification) {}

  absl::Status Consume(const EncodedBatch& batch) {
    RETURN_IF_ERROR(CheckCancelled(args_.cancelled));
    for (size_t i = 0; i < batch.items.size(); ++i) {
      RETURN_IF_ERROR(ConsumeRecord(batch.first_index + static_cast<int64_t>(i), batch.items[i]));
    }
    args_.progress(batch.consumed_bytes);
    return batch.error;
  }

  // No trainable token is left: says why.
  absl::Status CheckAnyTarget() const {
    if (any_target_) return absl::OkStatus();
    if (seen_.records_read == 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("dataset ", args_.dataset->path, " has no records"));
    }
    return absl::InvalidArgumentError(absl::StrCat(
        "dataset ", args_.dataset->path, " has no trainable token: of ", seen_.records_read,
        " records ", seen_.bad_records, " were bad, ", seen_.dropped_too_long,
        " above sequence_len ", args_.job->sequence_len, " were dropped, and ", seen_.no_target,
        " had no target (no assistant turn or answer, or a prompt that fills sequence_len)",
        EqualText()));
  }

 private:
  absl::Status ConsumeRecord(int64_t index, const EncodedBatch::Item& item) {
    const IngestTarget target = args_.route(index);
    DatasetStats& stats = *target.stats;
    ++stats.records_read;
    ++seen_.records_read;
    if (!item.documents.ok()) {
      const bool skip = absl::IsInvalidArgument(item.documents.status()) &&
                        args_.job->on_bad_record == config::OnBadRecord::kSkip;
      if (!skip) return At(item);
      ++stats.bad_records;
      ++seen_.bad_records;
      args_.findings->Add({{NoteKind::kBadRecord}}, PlaceOf(item));
      return absl::OkStatus();
    }
    RecordNotes notes = item.notes;
    NoteLosses(*item.documents, &notes);
    if (!notes.empty()) args_.findings->Add(notes, PlaceOf(item));
    stats.split += std::any_of(
        item.documents->begin(), item.documents->end(),
        [](const EncodedDocument& document) { return document.outcome == Outcome::kSplit; });
    return ConsumeDocuments(*item.documents, target);
  }

  std::string EqualText() const {
    const int64_t equal = seen_.equal_sides + seen_.equal_once_cut;
    return equal == 0 ? "" : absl::StrCat("; the chosen side of ", equal, " equals the rejected");
  }

  RecordPlace PlaceOf(const EncodedBatch::Item& item) {
    while (files_[file_].data() != item.path.data()) ++file_;  // records come in order of files
    return {.file = static_cast<int64_t>(file_), .line = item.line};
  }

  absl::Status ConsumeDocuments(const std::vector<EncodedDocument>& documents,
                                const IngestTarget& target) {
    std::span<const EncodedDocument> left = documents;
    while (!left.empty()) {
      const size_t of_unit = left.front().role == DocumentRole::kChosen ? 2 : 1;
      RETURN_IF_ERROR(ConsumeUnit(left.first(of_unit), target));
      left = left.subspan(of_unit);
    }
    return absl::OkStatus();
  }

  // Documents that are kept or dropped together.
  absl::Status ConsumeUnit(std::span<const EncodedDocument> unit, const IngestTarget& target) {
    DatasetStats& stats = *target.stats;
    for (const EncodedDocument& document : unit) stats.turns += document.turns;
    for (DatasetStats* counts : {&stats, &seen_}) CountUnit(unit, counts);
    if (!IsKept(unit.front().outcome)) return absl::OkStatus();
    any_target_ = true;
    if (target.copies == 0) return absl::OkStatus();
    if (!stats.classes.empty()) {
      for (const int64_t index : labels_.ClassesOf(unit.front().values)) {
        ++stats.classes[static_cast<size_t>(index)];
      }
    }
    for (const EncodedDocument& document : unit) {
      for (const int32_t id : document.ids) {
        stats.largest_id = std::max(stats.largest_id, static_cast<int64_t>(id));
      }
    }
    return OfTokenCache(target.writer->Add(unit, target.copies));
  }

  static bool IsKept(Outcome outcome) {
    return outcome == Outcome::kKept || outcome == Outcome::kSplit ||
           outcome == Outcome::kTruncated;
  }

  static void CountUnit(std::span<const EncodedDocument> unit, DatasetStats* stats) {
    const Outcome outcome = unit.front().outcome;
    stats->dropped_too_long += outcome == Outcome::kTooLong ? 1 : 0;
    stats->no_target += outcome == Outcome::kNoTarget ? 1 : 0;
    stats->equal_sides += outcome == Outcome::kEqual ? 1 : 0;
    stats->equal_once_cut += outcome == Outcome::kEqualOnceCut ? 1 : 0;
    const bool cut = std::any_of(unit.begin(), unit.end(), [](const EncodedDocument& document) {
      return document.outcome == Outcome::kTruncated;
    });
    stats->truncated += cut ? 1 : 0;
  }

  // The record's error with its place. A document above sequence_len (OutOfRange) and a record of
  // preference tuning (Unimplemented) are the user's to decide on, like a bad record.
  absl::Status At(const EncodedBatch::Item& item) const {
    const absl::Status& status = item.documents.status();
    const bool to_decide = absl::IsOutOfRange(status) || absl::IsUnimplemented(status);
    const absl::StatusCode code = to_decide ? absl::StatusCode::kInvalidArgument : status.code();
    return absl::Status(
        code, absl::StrCat(std::string(item.path), ":", item.line, ": ", status.message()));
  }

  const IngestArgs& args_;
  const std::vector<std::string>& files_;
  const ClassLabels labels_;
  size_t file_ = 0;    // of the last place
  DatasetStats seen_;  // of this dataset alone
  bool any_target_ = false;
};

}  // namespace

absl::Status Ingest(const IngestArgs& args) {
  ASSIGN_OR_RETURN(const DocumentEncoder encoder,
                   DocumentEncoder::Create(*args.job, *args.dataset, *args.tokenizer));
  ASSIGN_OR_RETURN(const std::unique_ptr<DatasetReader> reader, DatasetReader::Open(*args.dataset));
  int64_t next_index = 0;
  bool failed = false;
  Sink sink(args, reader->paths());

  using Pipeline = OrderedPipeline<RecordBatch, EncodedBatch>;
  Pipeline::Stages stages;
  stages.produce = [&](RecordBatch* batch) -> absl::StatusOr<bool> {
    if (failed || !ReadBatch(*reader, kBatchBytes, batch)) return false;
    failed = !batch->error.ok();
    batch->first_index = next_index;
    next_index += static_cast<int64_t>(batch->items.size());
    return true;
  };
  stages.make_map = [&]() -> std::function<EncodedBatch(RecordBatch)> {
    auto parser = std::make_shared<RecordParser>(*args.dataset);
    return [&encoder, parser](const RecordBatch& batch) {
      return EncodeBatch(encoder, *parser, batch);
    };
  };
  stages.consume = [&](const EncodedBatch& batch) { return sink.Consume(batch); };
  stages.threads = args.threads;
  stages.in_flight = 2 * args.threads + 2;
  RETURN_IF_ERROR(Pipeline::Run(stages));
  for (const auto& [name, column] : reader->LeftOutColumns()) {
    args.findings->Add(NoteKind::kUnreadField, name, column.records);
  }
  return sink.CheckAnyTarget();
}

}  // namespace coxswain::data
