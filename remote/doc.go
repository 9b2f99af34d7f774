// Package remote reads models where they are: byte ranges of files on a model hub, on a web server, on this
// disk or in an existing hub cache, and the tensors of GGUF and safetensors files on top of them.
//
// Start with [ParseReference], [NewClient] and [Client.OpenModel]; for a file that is no model use
// [Client.Open] and [ReadAll].
//
// # What a Source promises
//
// A read gives the bytes asked for or an error, never other bytes. A hub file is pinned to a commit before the
// first byte is read. Every ranged answer must be a 206 with exactly the range, total size, length and encoding
// that were asked for, from a file whose validator has not changed since the first answer. Interrupted transfers
// go on in the middle of the range; expired signed links are resolved again. The suite in remotetest states the
// contract as tests and runs over every kind of source.
//
// # Secrets
//
// The hub token is sent to the hub's own host and port only, decided hop by hop. Neither it nor the query of a
// signed link appears in an error, a log line or an Identity.
package remote
