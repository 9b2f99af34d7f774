// Package gguf is the GGUF container: it reads headers, lays out new files, and knows nothing of weights.
//
// ReadHeader parses the header of one file from any io.ReaderAt; OpenModel does so for a model that may be
// split over several files. NewLayout is the way back: metadata and tensor shapes in, complete header bytes and
// offsets out, equal to what one of the two reference writers (ggml, gguf-py) puts into a file.
//
// On top of these, Summarize says where a model's bytes are, and HashModel computes and checks digests in the
// form of llama-gguf-hash.
//
// # Hostile input
//
// Files come from anywhere. Whatever the bytes, no function panics or allocates more than a small multiple of
// the bytes really present. Errors about a file's content are of kind fault.BadInput, name the key or tensor, and hint
// at the next step where there is one. A Value of a parsed header is always well-formed; one made by hand is
// checked by NewLayout.
package gguf
