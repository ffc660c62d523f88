// Names of the files that jobs write into the folders of their output directory.
#ifndef COXSWAIN_CONTROLLER_FOLDERS_WRITTEN_NAMES_H_
#define COXSWAIN_CONTROLLER_FOLDERS_WRITTEN_NAMES_H_

#include <cstdint>
#include <string>
#include <vector>

namespace coxswain {

inline constexpr char kAdapterName[] = "adapter";
inline constexpr char kModelName[] = "model";
inline constexpr char kTrainerStateName[] = "trainer_state.json";
inline constexpr char kCardName[] = "README.md";
// Every model card that a job wrote has these words.
inline constexpr char kCardSignature[] = "trained by Coxswain.";

// The files of a tokenizer, which a base may have or not.
const std::vector<std::string>& TokenizerFiles();
// Other files that a model takes over from its base.
const std::vector<std::string>& ModelCompanions();

bool IsCheckpointFile(const std::string& name);
bool IsAdapterFile(const std::string& name);
bool IsModelFile(const std::string& name);

// "checkpoint-40" -> 40; -1 for another name.
int64_t CheckpointStep(const std::string& name);

}  // namespace coxswain

#endif  // COXSWAIN_CONTROLLER_FOLDERS_WRITTEN_NAMES_H_
