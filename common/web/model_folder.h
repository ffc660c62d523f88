// Which files a folder of a web server has of a model.
#ifndef COXSWAIN_COMMON_WEB_MODEL_FOLDER_H_
#define COXSWAIN_COMMON_WEB_MODEL_FOLDER_H_

#include <functional>

#include "absl/status/statusor.h"
#include "common/hub/api/hub_settings.h"
#include "common/web/url_listing.h"

namespace coxswain::web {

// A web server lists no folder: each file that a model may have is asked for by its name. Those are
// config.json, which must be there; generation_config.json; files of the tokenizer and its chat
// template; and the first of these that is there, with its shards: model.safetensors,
// model.safetensors.index.json, pytorch_model.bin, pytorch_model.bin.index.json. NotFound: no
// config.json, or no weights. Else errors as AskFacts and AskText; InvalidArgument: an index that
// is none.
absl::StatusOr<UrlListing> AskModel(const hub::Settings& settings, const UrlSource& source,
                                    const std::function<bool()>& cancelled);

}  // namespace coxswain::web

#endif  // COXSWAIN_COMMON_WEB_MODEL_FOLDER_H_
