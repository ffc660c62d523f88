// An export that is written aside and has not its name yet.
#ifndef COXSWAIN_CONTROLLER_FOLDERS_STAGED_EXPORT_H_
#define COXSWAIN_CONTROLLER_FOLDERS_STAGED_EXPORT_H_

#include <string>
#include <vector>

#include "controller/folders/verification.h"

namespace coxswain {

struct StagedFolder {
  std::string directory;  // in .staging
  bool adapter = false;   // a PEFT adapter; else a model
  // Its files round what was trained: what is read has the bits of the checkpoint so rounded.
  bool rounded = false;
  // Of a merge: how far it may be from the trained state, as a relative change of each weight; 0:
  // it is none.
  double rounding = 0;
  // Of a merge: the part of the adapter that the rounding takes back, >= 0. Where it is more than
  // 0, the base lies in `base_dir`.
  double lost = 0;
  std::string base_dir = {};
  // Why our own reader refuses its settings; empty: it reads them as those of the job.
  std::string refused = {};
  // `artifact`, and `bound_from` of that rounding; with a `reason` it cannot be compared.
  Verification verification = {};
  Verification gguf = {};  // of its GGUF files; no `artifact`: it has none
};

struct StagedExport {
  std::vector<StagedFolder> folders;  // the adapter first
};

}  // namespace coxswain

#endif  // COXSWAIN_CONTROLLER_FOLDERS_STAGED_EXPORT_H_
