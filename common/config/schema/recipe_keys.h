// The keys of a job that fix its numbers, with their values. A checkpoint keeps those of the job
// that wrote it, so that another job in the same folder is told which of them differ.
#ifndef COXSWAIN_COMMON_CONFIG_SCHEMA_RECIPE_KEYS_H_
#define COXSWAIN_COMMON_CONFIG_SCHEMA_RECIPE_KEYS_H_

#include <map>
#include <string>

namespace coxswain::config {

// Key without "spec." -> its value as JSON.
using KeyValues = std::map<std::string, std::string>;

// Of a job's effective_json: keys of which each alone makes another recipe, whatever model and data
// are. Left out are keys that the job does not read (those of lora, of a random model), and those
// of lora where the job starts from an adapter, which has its own.
KeyValues DecidingKeys(const std::string& effective_json);

// All keys that the job reads and of which another recipe can come: also those that make one with
// some data, length or device only.
KeyValues RecipeKeys(const std::string& effective_json);

// "train.learning_rate is 0.0001 there and 0.0002 here, ...", in the order of the keys. Only keys
// that both sides have are compared. Empty: none of them differs.
std::string Differences(const KeyValues& there, const KeyValues& here);

}  // namespace coxswain::config

#endif  // COXSWAIN_COMMON_CONFIG_SCHEMA_RECIPE_KEYS_H_
