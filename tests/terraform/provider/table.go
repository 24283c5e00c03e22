package main

import (
	"encoding/json"
	"fmt"
	"log"

	"github.com/hashicorp/terraform-plugin-framework-validators/listvalidator"
	"github.com/hashicorp/terraform-plugin-framework-validators/setvalidator"
	"github.com/hashicorp/terraform-plugin-framework/attr"
	data "github.com/hashicorp/terraform-plugin-framework/datasource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"
)

// block is what stands between braces: arguments, and blocks in turn.
type block struct {
	Attributes map[string]attribute `json:"attributes"`
	Blocks     map[string]nested    `json:"blocks"`
}

// nested is a block in a block: how often it may come (0: without a limit), and as what it is kept.
type nested struct {
	block
	Nesting string `json:"nesting"`
	Min     int    `json:"min"`
	Max     int    `json:"max"`
}

type attribute struct {
	Type     kind `json:"type"`
	Required bool `json:"required"`
	Optional bool `json:"optional"`
	Computed bool `json:"computed"`
}

// kind is a type as the table has it: "string", ["list", "string"], ["list", ["object", {"name": "string"}]].
type kind struct{ attr.Type }

func (k *kind) UnmarshalJSON(text []byte) error {
	var word string
	if json.Unmarshal(text, &word) == nil {
		simple := map[string]attr.Type{"string": types.StringType, "number": types.NumberType, "bool": types.BoolType}
		known, there := simple[word]
		if !there {
			return fmt.Errorf("there is no type %q", word)
		}
		k.Type = known
		return nil
	}
	var pair [2]json.RawMessage
	if err := json.Unmarshal(text, &pair); err != nil {
		return err
	}
	if err := json.Unmarshal(pair[0], &word); err != nil {
		return err
	}
	if word == "object" {
		var members map[string]kind
		if err := json.Unmarshal(pair[1], &members); err != nil {
			return err
		}
		of := map[string]attr.Type{}
		for name, member := range members {
			of[name] = member.Type
		}
		k.Type = types.ObjectType{AttrTypes: of}
		return nil
	}
	var element kind
	if err := json.Unmarshal(pair[1], &element); err != nil {
		return err
	}
	switch word {
	case "list":
		k.Type = types.ListType{ElemType: element.Type}
	case "set":
		k.Type = types.SetType{ElemType: element.Type}
	case "map":
		k.Type = types.MapType{ElemType: element.Type}
	default:
		return fmt.Errorf("there is no type %q", word)
	}
	return nil
}

func (b block) attributes() map[string]schema.Attribute {
	all := map[string]schema.Attribute{}
	for name, a := range b.Attributes {
		switch t := a.Type.Type.(type) {
		case types.ListType:
			all[name] = schema.ListAttribute{ElementType: t.ElemType, Required: a.Required, Optional: a.Optional, Computed: a.Computed}
		case types.SetType:
			all[name] = schema.SetAttribute{ElementType: t.ElemType, Required: a.Required, Optional: a.Optional, Computed: a.Computed}
		case types.MapType:
			all[name] = schema.MapAttribute{ElementType: t.ElemType, Required: a.Required, Optional: a.Optional, Computed: a.Computed}
		default:
			all[name] = simple(name, a)
		}
	}
	return all
}

func simple(name string, a attribute) schema.Attribute {
	switch a.Type.Type {
	case types.StringType:
		return schema.StringAttribute{Required: a.Required, Optional: a.Optional, Computed: a.Computed}
	case types.NumberType:
		return schema.NumberAttribute{Required: a.Required, Optional: a.Optional, Computed: a.Computed}
	case types.BoolType:
		return schema.BoolAttribute{Required: a.Required, Optional: a.Optional, Computed: a.Computed}
	}
	log.Fatalf("schema.json: %s has a type of its own: %v", name, a.Type.Type)
	return nil
}

func (b block) blocks() map[string]schema.Block {
	all := map[string]schema.Block{}
	for name, n := range b.Blocks {
		object := schema.NestedBlockObject{Attributes: n.attributes(), Blocks: n.blocks()}
		switch n.Nesting {
		case "single":
			all[name] = schema.SingleNestedBlock{Attributes: n.attributes(), Blocks: n.blocks()}
		case "set":
			var limits []validator.Set
			if n.Min > 0 {
				limits = append(limits, setvalidator.SizeAtLeast(n.Min))
			}
			if n.Max > 0 {
				limits = append(limits, setvalidator.SizeAtMost(n.Max))
			}
			all[name] = schema.SetNestedBlock{NestedObject: object, Validators: limits}
		case "list":
			var limits []validator.List
			if n.Min > 0 {
				limits = append(limits, listvalidator.SizeAtLeast(n.Min))
			}
			if n.Max > 0 {
				limits = append(limits, listvalidator.SizeAtMost(n.Max))
			}
			all[name] = schema.ListNestedBlock{NestedObject: object, Validators: limits}
		default:
			log.Fatalf("schema.json: %s nests as %q", name, n.Nesting)
		}
	}
	return all
}

// The same for data sources, whose schema has types of its own.
func (b block) dataAttributes() map[string]data.Attribute {
	all := map[string]data.Attribute{}
	for name, a := range b.Attributes {
		switch t := a.Type.Type.(type) {
		case types.ListType:
			all[name] = data.ListAttribute{ElementType: t.ElemType, Required: a.Required, Optional: a.Optional, Computed: a.Computed}
		case types.SetType:
			all[name] = data.SetAttribute{ElementType: t.ElemType, Required: a.Required, Optional: a.Optional, Computed: a.Computed}
		case types.MapType:
			all[name] = data.MapAttribute{ElementType: t.ElemType, Required: a.Required, Optional: a.Optional, Computed: a.Computed}
		default:
			all[name] = dataSimple(name, a)
		}
	}
	return all
}

func dataSimple(name string, a attribute) data.Attribute {
	switch a.Type.Type {
	case types.StringType:
		return data.StringAttribute{Required: a.Required, Optional: a.Optional, Computed: a.Computed}
	case types.NumberType:
		return data.NumberAttribute{Required: a.Required, Optional: a.Optional, Computed: a.Computed}
	case types.BoolType:
		return data.BoolAttribute{Required: a.Required, Optional: a.Optional, Computed: a.Computed}
	}
	log.Fatalf("schema.json: %s has a type of its own: %v", name, a.Type.Type)
	return nil
}

func (b block) dataBlocks() map[string]data.Block {
	all := map[string]data.Block{}
	for name, n := range b.Blocks {
		object := data.NestedBlockObject{Attributes: n.dataAttributes(), Blocks: n.dataBlocks()}
		if n.Nesting == "single" {
			all[name] = data.SingleNestedBlock{Attributes: n.dataAttributes(), Blocks: n.dataBlocks()}
		} else {
			all[name] = data.ListNestedBlock{NestedObject: object}
		}
	}
	return all
}
