// A stand-in for the provider hashicorp/aws: the same resources and arguments, and nothing behind them.
//
// `terraform init`, `validate` and mocked tests need a provider's schema and no more. The table is made from the real provider's by ../schema.py.
package main

import (
	"context"
	_ "embed"
	"encoding/json"
	"log"
	"sort"

	"github.com/hashicorp/terraform-plugin-framework/datasource"
	data "github.com/hashicorp/terraform-plugin-framework/datasource/schema"
	"github.com/hashicorp/terraform-plugin-framework/provider"
	providerschema "github.com/hashicorp/terraform-plugin-framework/provider/schema"
	"github.com/hashicorp/terraform-plugin-framework/providerserver"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
)

//go:embed schema.json
var embedded []byte

// table is schema.json.
type table struct {
	Provider string           `json:"provider"`
	Resource map[string]block `json:"resource"`
	Data     map[string]block `json:"data"`
}

func main() {
	var known table
	if err := json.Unmarshal(embedded, &known); err != nil {
		log.Fatalf("schema.json: %v", err)
	}
	options := providerserver.ServeOpts{Address: "registry.terraform.io/hashicorp/aws"}
	if err := providerserver.Serve(context.Background(), func() provider.Provider { return &stub{known} }, options); err != nil {
		log.Fatal(err)
	}
}

type stub struct{ table }

func (s *stub) Metadata(_ context.Context, _ provider.MetadataRequest, response *provider.MetadataResponse) {
	response.TypeName = "aws"
	response.Version = s.Provider
}

func (s *stub) Schema(_ context.Context, _ provider.SchemaRequest, response *provider.SchemaResponse) {
	response.Schema = providerschema.Schema{Attributes: map[string]providerschema.Attribute{
		"region":  providerschema.StringAttribute{Optional: true},
		"profile": providerschema.StringAttribute{Optional: true},
	}}
}

func (s *stub) Configure(context.Context, provider.ConfigureRequest, *provider.ConfigureResponse) {}

func (s *stub) Resources(context.Context) []func() resource.Resource {
	var all []func() resource.Resource
	for _, name := range names(s.Resource) {
		all = append(all, func() resource.Resource { return &stubResource{name, s.Resource[name]} })
	}
	return all
}

func (s *stub) DataSources(context.Context) []func() datasource.DataSource {
	var all []func() datasource.DataSource
	for _, name := range names(s.Data) {
		all = append(all, func() datasource.DataSource { return &stubData{name, s.Data[name]} })
	}
	return all
}

func names(blocks map[string]block) []string {
	var all []string
	for name := range blocks {
		all = append(all, name)
	}
	sort.Strings(all)
	return all
}

const (
	summary = "This is no provider"
	detail  = "A stand-in for hashicorp/aws that knows its schema only: mock it (mock_provider \"aws\")."
)

type stubResource struct {
	name string
	block
}

func (r *stubResource) Metadata(_ context.Context, _ resource.MetadataRequest, response *resource.MetadataResponse) {
	response.TypeName = r.name
}

func (r *stubResource) Schema(_ context.Context, _ resource.SchemaRequest, response *resource.SchemaResponse) {
	response.Schema = schema.Schema{Attributes: r.attributes(), Blocks: r.blocks()}
}

func (r *stubResource) Create(_ context.Context, _ resource.CreateRequest, response *resource.CreateResponse) {
	response.Diagnostics.AddError(summary, detail)
}

func (r *stubResource) Read(_ context.Context, _ resource.ReadRequest, response *resource.ReadResponse) {
	response.Diagnostics.AddError(summary, detail)
}

func (r *stubResource) Update(_ context.Context, _ resource.UpdateRequest, response *resource.UpdateResponse) {
	response.Diagnostics.AddError(summary, detail)
}

func (r *stubResource) Delete(_ context.Context, _ resource.DeleteRequest, response *resource.DeleteResponse) {
	response.Diagnostics.AddError(summary, detail)
}

type stubData struct {
	name string
	block
}

func (d *stubData) Metadata(_ context.Context, _ datasource.MetadataRequest, response *datasource.MetadataResponse) {
	response.TypeName = d.name
}

func (d *stubData) Schema(_ context.Context, _ datasource.SchemaRequest, response *datasource.SchemaResponse) {
	response.Schema = data.Schema{Attributes: d.dataAttributes(), Blocks: d.dataBlocks()}
}

func (d *stubData) Read(_ context.Context, _ datasource.ReadRequest, response *datasource.ReadResponse) {
	response.Diagnostics.AddError(summary, detail)
}
