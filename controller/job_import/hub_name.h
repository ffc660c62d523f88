// What of theirs is a name on the Hugging Face hub, and where its download lies for us.
#ifndef COXSWAIN_CONTROLLER_JOB_IMPORT_HUB_NAME_H_
#define COXSWAIN_CONTROLLER_JOB_IMPORT_HUB_NAME_H_

#include <string>

namespace coxswain::job_import {

// "Qwen/Qwen3-8B", and names without a slash; not paths, files of data, URLs, and nothing that
// lies below `base_dir`.
bool IsHubName(const std::string& text, const std::string& base_dir);

// A relative path in a form that never reads as a hub name: "out/a" gives "./out/a".
std::string LocalForm(const std::string& text);

// The command that brings it to LocalForm(name); `kind` is "model" or "dataset", `revision` may be
// empty.
std::string DownloadCommand(const std::string& name, const std::string& kind,
                            const std::string& revision);

}  // namespace coxswain::job_import

#endif  // COXSWAIN_CONTROLLER_JOB_IMPORT_HUB_NAME_H_
