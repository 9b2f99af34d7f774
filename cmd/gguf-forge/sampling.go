package main

import (
	"gguf-forge/runtime"
)

// samplingFlags say how tokens are chosen.
type samplingFlags struct {
	Temp             float32 `default:"0.8" placeholder:"T" help:"Temperature; 0 takes the likeliest token (default 0.8)."`
	TopK             int     `default:"40" placeholder:"K" help:"Draw from the K likeliest tokens; 0: from all (default 40)."`
	TopP             float32 `default:"0.95" placeholder:"P" help:"Of these, from the fewest that have probability P together; 1: all (default 0.95)."`
	MinP             float32 `default:"0.05" placeholder:"P" help:"Of these, from the ones at least P as likely as the first (default 0.05)."`
	RepeatPenalty    float32 `default:"1" placeholder:"X" help:"Divide the logits of recent tokens by X; 1 is off."`
	PresencePenalty  float32 `placeholder:"X" help:"Subtract X from the logits of recent tokens."`
	FrequencyPenalty float32 `placeholder:"X" help:"Subtract X for each recent occurrence."`
	PenaltyWindow    int     `default:"64" placeholder:"N" help:"How many tokens are recent; -1: all (default 64)."`
	DryMultiplier    float32 `placeholder:"X" help:"Strength of the DRY penalty on prolonging repetitions; 0 is off."`
	DryBase          float32 `default:"1.75" placeholder:"X" help:"Its growth per token (default 1.75)."`
	DryAllowed       int     `default:"2" placeholder:"N" help:"Repetitions shorter than N are free (default 2)."`
	Seed             uint64  `default:"1" placeholder:"N" help:"The same seed gives the same draws (default 1)."`
}

func (f samplingFlags) sampler() (*runtime.Sampler, error) {
	return runtime.NewSampler(runtime.SamplerOptions{
		Temperature: f.Temp, TopK: f.TopK, TopP: f.TopP, MinP: f.MinP,
		RepeatPenalty: f.RepeatPenalty, PresencePenalty: f.PresencePenalty, FrequencyPenalty: f.FrequencyPenalty, PenaltyWindow: f.PenaltyWindow,
		DRYMultiplier: f.DryMultiplier, DRYBase: f.DryBase, DRYAllowed: f.DryAllowed, Seed: f.Seed,
	})
}
