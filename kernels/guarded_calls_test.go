package kernels_test

import (
	"go/ast"
	"go/parser"
	"go/printer"
	"go/token"
	"path/filepath"
	"strings"
	"testing"
)

// Every call of an assembly function stands in a branch whose condition asks for its instruction set, and every
// assembly function is called.
func TestCallsAreGuarded(t *testing.T) {
	for _, goarch := range []string{"amd64", "arm64"} {
		files, err := filepath.Glob("*_" + goarch + ".go")
		if err != nil {
			t.Fatal(err)
		}
		called := map[string]bool{}
		for _, file := range files {
			set := token.NewFileSet()
			tree, err := parser.ParseFile(set, file, nil, 0)
			if err != nil {
				t.Fatal(err)
			}
			assembly := map[string]bool{}
			for _, d := range tree.Decls {
				if f, ok := d.(*ast.FuncDecl); ok && f.Body == nil {
					assembly[f.Name.Name] = true
				}
			}
			var path []ast.Node
			ast.Inspect(tree, func(n ast.Node) bool {
				if n == nil {
					path = path[:len(path)-1]
					return true
				}
				path = append(path, n)
				call, ok := n.(*ast.CallExpr)
				if !ok {
					return true
				}
				name, ok := call.Fun.(*ast.Ident)
				if !ok || !assembly[name.Name] {
					return true
				}
				called[name.Name] = true
				if want := "enabled[" + strings.ToLower(instructionSet(name.Name)) + "]"; !guardedBy(set, path, want) {
					t.Errorf("%s: %s is called without asking for %s", set.Position(call.Pos()), name.Name, want)
				}
				return true
			})
		}
		for _, f := range generatedFunctions(t, goarch) {
			if !called[f.name] {
				t.Errorf("%s: %s is never called", f.file, f.name)
			}
		}
	}
}

// guardedBy reports whether the last node of path lies in a branch that is only taken if the condition holds: one
// term of a conjunction.
func guardedBy(set *token.FileSet, path []ast.Node, condition string) bool {
	for i, n := range path[:len(path)-1] {
		var guards []ast.Expr
		switch n := n.(type) {
		case *ast.IfStmt:
			if path[i+1] == n.Body {
				guards = conjunction(n.Cond)
			}
		case *ast.CaseClause:
			if len(n.List) == 1 {
				guards = conjunction(n.List[0])
			}
		}
		for _, g := range guards {
			var text strings.Builder
			if printer.Fprint(&text, set, g) == nil && text.String() == condition {
				return true
			}
		}
	}
	return false
}

func conjunction(e ast.Expr) []ast.Expr {
	if b, ok := e.(*ast.BinaryExpr); ok && b.Op == token.LAND {
		return append(conjunction(b.X), conjunction(b.Y)...)
	}
	return []ast.Expr{e}
}
