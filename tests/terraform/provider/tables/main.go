// Prints the tables of a module's inputs and outputs, as Markdown: `tables FOLDER`.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"sort"
	"strings"

	"github.com/hashicorp/terraform-config-inspect/tfconfig"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "tables: say which folder")
		os.Exit(2)
	}
	module, problems := tfconfig.LoadModule(os.Args[1])
	if problems.HasErrors() {
		fmt.Fprintf(os.Stderr, "tables: %s cannot be read: %v\n", os.Args[1], problems)
		os.Exit(1)
	}
	inputs(module)
	outputs(module)
}

// Those that must be given come first.
func inputs(module *tfconfig.Module) {
	var all []*tfconfig.Variable
	for _, variable := range module.Variables {
		all = append(all, variable)
	}
	sort.Slice(all, func(i, j int) bool {
		if all[i].Required != all[j].Required {
			return all[i].Required
		}
		return all[i].Name < all[j].Name
	})
	fmt.Print("## Inputs\n\n| name | what | type | default |\n| --- | --- | --- | --- |\n")
	for _, variable := range all {
		value := "required"
		if !variable.Required {
			value = code(text(variable.Default))
		}
		fmt.Printf("| `%s` | %s | %s | %s |\n", variable.Name, cell(variable.Description), code(line(variable.Type)), value)
	}
}

func outputs(module *tfconfig.Module) {
	var names []string
	for name := range module.Outputs {
		names = append(names, name)
	}
	sort.Strings(names)
	fmt.Print("\n## Outputs\n\n| name | what |\n| --- | --- |\n")
	for _, name := range names {
		fmt.Printf("| `%s` | %s |\n", name, cell(module.Outputs[name].Description))
	}
}

func text(value any) string {
	encoded, err := json.Marshal(value)
	if err != nil {
		fmt.Fprintf(os.Stderr, "tables: a default cannot be written: %v\n", err)
		os.Exit(1)
	}
	return string(encoded)
}

// line writes a type of several lines in one, with the commas that line breaks stood for.
func line(kind string) string {
	lines := strings.Split(kind, "\n")
	joined := strings.TrimSpace(lines[0])
	for _, next := range lines[1:] {
		next = strings.TrimSpace(next)
		if strings.HasSuffix(joined, "{") || strings.HasPrefix(next, "}") {
			joined += " " + next
		} else {
			joined += ", " + next
		}
	}
	return joined
}

// cell makes one line of it that no bar ends.
func cell(words string) string {
	return strings.ReplaceAll(strings.Join(strings.Fields(words), " "), "|", `\|`)
}

func code(words string) string {
	return "`" + cell(words) + "`"
}
