// Encoding and decoding with a loaded tokenizer.
#include "engine/tokenizer/tokenizer.h"

#include "engine/tokenizer/tokenizer_impl.h"

namespace kvasir {
namespace {

// One call of encode: its memory, and what it has found so far.
class Encoder {
 public:
  Encoder(const Tokenizer::Impl& model, std::vector<int32_t>& ids) : model_(model), merger_(model.merges), ids_(ids) {}

  // text is well-formed; it holds no special token.
  void encode(std::string_view text) {
    if (model_.normalizes && may_need_nfc(text, model_.classes)) {
      normal_ = to_nfc(text, model_.classes);
      text = normal_;
    }
    ends_.clear();
    split_pieces(model_.pretokenizer, model_.classes, text, ends_);
    size_t start = 0;
    for (const size_t end : ends_) {
      encode_piece(text.substr(start, end - start));
      start = end;
    }
  }

 private:
  void encode_piece(std::string_view piece) {
    if (model_.whole_pieces) {
      if (const int32_t id = whole_piece(piece); id >= 0) {
        ids_.push_back(id);
        return;
      }
    }
    symbols_.clear();
    for (const char c : piece) symbols_.push_back(model_.vocabulary.byte_token(static_cast<uint8_t>(c)));
    merger_.merge(symbols_, ids_);
  }

  // The normal token that stands for all of the piece, or -1.
  int32_t whole_piece(std::string_view piece) {
    if (piece.size() > model_.longest_token) return -1;
    spelled_.clear();
    for (const char c : piece) append_utf8(spelled_, byte_character(static_cast<uint8_t>(c)));
    const int32_t id = model_.vocabulary.find(spelled_);
    return id >= 0 && model_.vocabulary.kind(id) == TokenKind::normal ? id : -1;
  }

  const Tokenizer::Impl& model_;
  BpeMerger merger_;
  std::vector<int32_t>& ids_;
  std::vector<int32_t> symbols_;
  std::vector<size_t> ends_;
  std::string normal_, spelled_;
};

}  // namespace

Tokenizer::Tokenizer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Tokenizer::Tokenizer(Tokenizer&&) noexcept = default;
Tokenizer& Tokenizer::operator=(Tokenizer&&) noexcept = default;
Tokenizer::~Tokenizer() = default;

std::vector<int32_t> Tokenizer::encode(std::string_view text, EncodeOptions options) const {
  std::string repaired;
  if (utf8_valid_prefix(text) != text.size()) {
    repaired = utf8_repaired(text);
    text = repaired;
  }
  std::vector<int32_t> ids;
  if (options.add_bos && impl_->bos >= 0) ids.push_back(impl_->bos);
  Encoder encoder(*impl_, ids);
  for (size_t pos = 0; pos < text.size();) {
    const SpecialTokens::Match match = impl_->specials.find(text, pos, options);
    if (match.id < 0) {
      encoder.encode(text.substr(pos));
      break;
    }
    encoder.encode(text.substr(pos, match.start - pos));
    ids.push_back(match.id);
    pos = match.end;
  }
  return ids;
}

std::string_view Tokenizer::piece(int32_t id, bool show_control) const {
  KV_CHECK(id >= 0 && id < n_vocab(), "a token id is in the vocabulary");
  if (is_control(id) && !show_control) return {};
  return impl_->vocabulary.bytes(id);
}

std::string Tokenizer::decode(std::span<const int32_t> ids, bool show_control) const {
  std::string text;
  for (const int32_t id : ids) text += piece(id, show_control);
  return text;
}

int32_t Tokenizer::n_vocab() const {
  return impl_->vocabulary.size();
}
int32_t Tokenizer::bos() const {
  return impl_->bos;
}
int32_t Tokenizer::eos() const {
  return impl_->eos;
}
bool Tokenizer::add_bos() const {
  return impl_->adds_bos;
}
bool Tokenizer::is_control(int32_t id) const {
  return impl_->vocabulary.kind(id) == TokenKind::control;
}
bool Tokenizer::is_end(int32_t id) const {
  return impl_->ends[static_cast<size_t>(id)];
}
int32_t Tokenizer::find(std::string_view token) const {
  return impl_->vocabulary.find(token);
}
std::string_view Tokenizer::chat_template() const {
  return impl_->chat_template;
}
std::span<const std::string> Tokenizer::warnings() const {
  return impl_->warnings;
}

std::string StreamDecoder::push(int32_t id) {
  tail_ += tokenizer_->piece(id);
  std::string shown;
  size_t pos = 0;
  while (pos < tail_.size()) {
    const Utf8Step step = utf8_step(tail_, pos);
    if (step.cut) break;
    shown += step.well_formed ? std::string_view(tail_).substr(pos, step.n_bytes) : kReplacement;
    pos += step.n_bytes;
  }
  tail_.erase(0, pos);
  return shown;
}

std::string StreamDecoder::finish() {
  std::string rest = utf8_repaired(tail_);
  tail_.clear();
  return rest;
}

}  // namespace kvasir
