package corpus

import (
	"gguf-forge/tokenizer"
)

// Head is one of the heads that are compared on held-out text.
type Head struct {
	Name string   // of its list, or its number of rows
	IDs  []uint32 // ascending
}

// Report is the coverage of held-out texts by heads.
type Report struct {
	Heads []Head
	Texts []ReportText
	Total ReportText // of all texts together, as if they were one
}

// ReportText is one held-out text in a report.
type ReportText struct {
	Name     string
	Coverage []tokenizer.Coverage // by head
	Missing  [][]tokenizer.Miss   // by head, the most frequent ones
}

// NewReport compares heads on texts. missing is how many of the most frequent missing tokens are named.
func NewReport(heads []Head, texts []tokenizer.Counted, missing int) *Report {
	r := &Report{Heads: heads, Total: ReportText{Name: "all"}}
	var all Counts
	for _, t := range texts {
		if all == nil {
			all = make(Counts, len(t.Counts))
		}
		all.Add(t.Counts)
		r.Texts = append(r.Texts, reportText(t.Name, t.Counts, heads, missing))
	}
	r.Total = reportText("all", all, heads, missing)
	return r
}

func reportText(name string, counts []uint64, heads []Head, missing int) ReportText {
	t := ReportText{Name: name}
	for _, h := range heads {
		t.Coverage = append(t.Coverage, tokenizer.Cover(counts, h.IDs))
		t.Missing = append(t.Missing, tokenizer.Missing(counts, h.IDs, missing))
	}
	return t
}

// JSON returns the report as it is printed for machines. piece gives the text of an id.
func (r *Report) JSON(piece func(id uint32) string) any {
	type miss struct {
		ID    uint32 `json:"id"`
		Count uint64 `json:"count"`
		Text  string `json:"text"`
	}
	type head struct {
		Head    string             `json:"head"`
		Rows    int                `json:"rows"`
		Cover   tokenizer.Coverage `json:"coverage"`
		Missing []miss             `json:"missing"`
	}
	type text struct {
		Name  string `json:"name"`
		Heads []head `json:"heads"`
	}
	convert := func(t ReportText) text {
		out := text{Name: t.Name}
		for i, h := range r.Heads {
			v := head{Head: h.Name, Rows: len(h.IDs), Cover: t.Coverage[i], Missing: []miss{}}
			for _, m := range t.Missing[i] {
				v.Missing = append(v.Missing, miss{m.ID, m.Count, piece(m.ID)})
			}
			out.Heads = append(out.Heads, v)
		}
		return out
	}
	var list struct {
		Texts []text `json:"texts"`
		Total text   `json:"total"`
	}
	for _, t := range r.Texts {
		list.Texts = append(list.Texts, convert(t))
	}
	list.Total = convert(r.Total)
	return list
}
