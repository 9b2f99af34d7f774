package pipeline

import (
	"encoding/binary"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"

	"gguf-forge/gguf"
	"gguf-forge/internal/fault"
)

// The keys that record where an artifact comes from.
const (
	KeyRecipe       = "forge.recipe"
	KeyRecipeSHA256 = "forge.recipe_sha256"
	KeySources      = "forge.sources"
)

// apply changes meta as the recipe says. A key that exists keeps its place and, unless the recipe names one, its type;
// new keys follow at the end in the order of their names. Removing a key that isn't there is an error.
func (m MetadataSpec) apply(meta *gguf.Metadata, dir string) error {
	for _, key := range m.Remove {
		if !meta.Delete(key) {
			return fault.New(fault.BadInput, "metadata.remove: the model has no key %s", key)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(m.Set)) {
		old, exists := meta.Get(key)
		want := gguf.ValueType(math.MaxUint32)
		if exists && old.Type != gguf.Array {
			want = old.Type
		}
		v, err := yamlValue(m.Set[key], want, dir)
		if err != nil {
			return fault.New(fault.BadInput, "metadata.set: %s: %w", key, err)
		}
		meta.Put(key, v)
	}
	return nil
}

// yamlValue turns a YAML value into a metadata value of type want; if want is no scalar type, into the type that suits it.
func yamlValue(v any, want gguf.ValueType, dir string) (gguf.Value, error) {
	switch v := v.(type) {
	case map[string]any:
		return tagged(v, want, dir)
	case []any:
		list := make([]string, len(v))
		for i, e := range v {
			s, ok := e.(string)
			if !ok {
				return gguf.Value{}, fmt.Errorf("a list can only hold strings")
			}
			list[i] = s
		}
		return gguf.StringsValue(list), nil
	case string:
		if want == gguf.String || want > gguf.Float64 {
			return gguf.StringValue(v), nil
		}
	case bool:
		if want == gguf.Bool || want > gguf.Float64 {
			return gguf.BoolValue(v), nil
		}
	case uint64, int64, int, float64:
		return numberValue(v, want)
	}
	return gguf.Value{}, fmt.Errorf("%v is no %s", v, want)
}

// tagged reads {type: T, value: V} and {file: PATH}.
func tagged(m map[string]any, want gguf.ValueType, dir string) (gguf.Value, error) {
	if path, ok := m["file"].(string); ok && len(m) == 1 {
		if dir != "" && !filepath.IsAbs(path) {
			path = filepath.Join(dir, path)
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return gguf.Value{}, err
		}
		return yamlValue(string(text), want, dir)
	}
	name, ok := m["type"].(string)
	value, has := m["value"]
	if !ok || !has || len(m) != 2 {
		return gguf.Value{}, fmt.Errorf("either {type: T, value: V} or {file: PATH} is needed")
	}
	for t := gguf.Uint8; t <= gguf.Float64; t++ {
		if t.String() == name && t != gguf.Array {
			return yamlValue(value, t, dir)
		}
	}
	return gguf.Value{}, fmt.Errorf("unknown value type %q", name)
}

// numberValue encodes a YAML number. Without a type asked for, whole numbers become u32, i32, u64 or i64, the first
// that holds them, and others f32.
func numberValue(v any, want gguf.ValueType) (gguf.Value, error) {
	var n int64
	var f float64
	whole := true
	switch v := v.(type) {
	case uint64:
		if v > math.MaxInt64 {
			if want != gguf.Uint64 && want <= gguf.Float64 {
				return gguf.Value{}, fmt.Errorf("%d does not fit %s", v, want)
			}
			return gguf.Uint64Value(v), nil
		}
		n = int64(v)
	case int64:
		n = v
	case int:
		n = int64(v)
	case float64:
		f, whole = v, false
	}
	if whole {
		f = float64(n)
	}
	switch want {
	case gguf.Float32:
		return gguf.Float32Value(float32(f)), nil
	case gguf.Float64:
		return gguf.Float64Value(f), nil
	case gguf.String, gguf.Bool:
		return gguf.Value{}, fmt.Errorf("%v is no %s", v, want)
	}
	if !whole {
		if want <= gguf.Float64 {
			return gguf.Value{}, fmt.Errorf("%v is no %s", v, want)
		}
		return gguf.Float32Value(float32(f)), nil
	}
	if want > gguf.Float64 {
		want = smallestInteger(n)
	}
	return integerValue(n, want)
}

func smallestInteger(n int64) gguf.ValueType {
	switch {
	case n >= 0 && n <= math.MaxUint32:
		return gguf.Uint32
	case n >= math.MinInt32 && n < 0:
		return gguf.Int32
	case n >= 0:
		return gguf.Uint64
	}
	return gguf.Int64
}

// integerValue encodes n as t, if it fits.
func integerValue(n int64, t gguf.ValueType) (gguf.Value, error) {
	bits := 8 * t.Size()
	raw := binary.LittleEndian.AppendUint64(nil, uint64(n))[:t.Size()]
	var fits bool
	switch t {
	case gguf.Uint8, gguf.Uint16, gguf.Uint32, gguf.Uint64:
		fits = n >= 0 && (bits == 64 || n < 1<<bits)
	case gguf.Int8, gguf.Int16, gguf.Int32, gguf.Int64:
		fits = bits == 64 || n >= -1<<(bits-1) && n < 1<<(bits-1)
	}
	if !fits {
		return gguf.Value{}, fmt.Errorf("%d does not fit %s", n, t)
	}
	return gguf.Value{Type: t, Raw: raw}, nil
}
