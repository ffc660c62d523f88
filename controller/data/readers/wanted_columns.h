// The fields of a record that the parser reads, for files that can leave the others undecoded.
#ifndef COXSWAIN_CONTROLLER_DATA_READERS_WANTED_COLUMNS_H_
#define COXSWAIN_CONTROLLER_DATA_READERS_WANTED_COLUMNS_H_

#include <string>
#include <vector>

#include "common/config/job_spec.h"

namespace coxswain::data {

// A field that every record must have comes first; empty: all of them.
inline std::vector<std::string> WantedColumns(const config::DatasetSpec& dataset) {
  const config::RecordFields& fields = dataset.fields;
  switch (dataset.format) {
    case config::DatasetFormat::kAlpaca:
      if (fields.system.empty()) return {fields.output, fields.instruction, fields.input};
      return {fields.output, fields.instruction, fields.input, fields.system};
    case config::DatasetFormat::kCompletion:
      return {fields.text};
    case config::DatasetFormat::kTokenized:
      return {"input_ids", "labels"};
    case config::DatasetFormat::kAuto:
    case config::DatasetFormat::kChat:
    case config::DatasetFormat::kSharegpt:
    case config::DatasetFormat::kPromptCompletion:
    case config::DatasetFormat::kInputOutput:
      break;
  }
  return {};
}

}  // namespace coxswain::data

#endif  // COXSWAIN_CONTROLLER_DATA_READERS_WANTED_COLUMNS_H_
