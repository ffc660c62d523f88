// Notes the losses of a record's documents on the way to the token store.
#ifndef COXSWAIN_CONTROLLER_DATA_DOCUMENTS_LOSS_NOTES_H_
#define COXSWAIN_CONTROLLER_DATA_DOCUMENTS_LOSS_NOTES_H_

#include <vector>

#include "controller/data/documents/document_encoder.h"
#include "controller/text/records/record.h"

namespace coxswain::data {

// Adds a note for each loss of each document. Findings counts them.
void NoteLosses(const std::vector<EncodedDocument>& documents, RecordNotes* notes);

}  // namespace coxswain::data

#endif  // COXSWAIN_CONTROLLER_DATA_DOCUMENTS_LOSS_NOTES_H_
