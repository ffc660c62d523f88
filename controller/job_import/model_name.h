// What the name of a model says of it where there is no config.json to read.
#ifndef COXSWAIN_CONTROLLER_JOB_IMPORT_MODEL_NAME_H_
#define COXSWAIN_CONTROLLER_JOB_IMPORT_MODEL_NAME_H_

#include <string>
#include <string_view>

namespace coxswain::job_import {

// A clause that says why the model is not trained yet ("the family Gemma is not supported yet");
// empty where the name says nothing against it.
std::string_view RefusalOfModel(const std::string& name);

}  // namespace coxswain::job_import

#endif  // COXSWAIN_CONTROLLER_JOB_IMPORT_MODEL_NAME_H_
