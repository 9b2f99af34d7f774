package main

import (
	"bufio"
	"context"
	"errors"
	"math"
	"strconv"

	"gguf-forge/runtime"
)

type logitsCmd struct {
	Model string `arg:"" predictor:"file" help:"Path (GGUF, or a llama2.c .bin), URL, org/name[@revision]:file or recipe:NAME."`

	IDs string `name:"ids" required:"" placeholder:"1,2,3" help:"Token ids, taken as they are."`
	All bool   `help:"Print all logits of each position."`
	engineFlags
}

func (c *logitsCmd) Help() string {
	return `Prints one object a position: {"position":0,"id":1,"top":[[id,logit],…]} with the ten likeliest tokens after it, and with ` +
		`--all "logits":[…] by id, null for tokens that a pruned head can't say. --exact gives what float32 arithmetic gives; otherwise ` +
		`activations are rounded as the reference engine rounds them.`
}

// topCount is how many of the likeliest tokens are printed.
const topCount = 10

func (c *logitsCmd) Run(ctx context.Context, a *app) (err error) {
	ids, err := parseIDs("--ids", c.IDs)
	if err != nil {
		return err
	}
	e, err := a.openEngine(ctx, c.Model, c.engineFlags)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, e.Close()) }()
	if err := e.start(a, c.engineFlags, len(ids), false); err != nil {
		return err
	}
	out := bufio.NewWriterSize(a.stdout, 1<<16)
	var line []byte
	err = e.session.EvalAll(ids, func(i int, logits []float32) error {
		line = c.appendLine(line[:0], i, ids[i], logits)
		if _, err := out.Write(line); err != nil {
			return err
		}
		return ctx.Err()
	})
	return errors.Join(err, out.Flush())
}

func (c *logitsCmd) appendLine(line []byte, pos int, id int32, logits []float32) []byte {
	line = strconv.AppendInt(append(line, `{"position":`...), int64(pos), 10)
	line = strconv.AppendInt(append(line, `,"id":`...), int64(id), 10)
	line = append(line, `,"top":[`...)
	for i, id := range runtime.Top(logits, topCount) {
		if i > 0 {
			line = append(line, ',')
		}
		line = strconv.AppendInt(append(line, '['), int64(id), 10)
		line = append(appendLogit(append(line, ','), logits[id]), ']')
	}
	line = append(line, ']')
	if c.All {
		line = append(line, `,"logits":[`...)
		for i, v := range logits {
			if i > 0 {
				line = append(line, ',')
			}
			line = appendLogit(line, v)
		}
		line = append(line, ']')
	}
	return append(line, "}\n"...)
}

// appendLogit writes a number with as many digits as tell it from its neighbours; what JSON can't say is null.
func appendLogit(line []byte, v float32) []byte {
	if f := float64(v); math.IsInf(f, 0) || math.IsNaN(f) {
		return append(line, "null"...)
	}
	return strconv.AppendFloat(line, float64(v), 'g', -1, 32)
}
