#include "controller/api/listed_job.h"

#include <google/protobuf/util/field_mask_util.h>

namespace coxswain::api {
namespace {

using google::protobuf::FieldMask;
using google::protobuf::util::FieldMaskUtil;

FieldMask ListedFields() {
  const FieldMask all = FieldMaskUtil::GetFieldMaskForAllFields<v1::Job>();
  FieldMask texts, listed;
  texts.add_paths("yaml");
  texts.add_paths("effective_json");
  FieldMaskUtil::Subtract<v1::Job>(all, texts, &listed);
  return listed;
}

}  // namespace

v1::Job ListedJob(const v1::Job& job) {
  static const FieldMask kListed = ListedFields();
  v1::Job listed;
  FieldMaskUtil::MergeMessageTo(job, kListed, FieldMaskUtil::MergeOptions(), &listed);
  return listed;
}

}  // namespace coxswain::api
