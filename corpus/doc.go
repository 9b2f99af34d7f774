// Package corpus reads texts and counts their tokens: to choose the rows of an output head, and to say how much of
// held-out text such a head can produce.
//
// Count gives the count vector of any number of inputs. A recipe declares its texts as Specs; Choose and HeldOut turn them
// into an id list and its coverage. Fetcher brings texts from the services the notebook used.
package corpus
