// Shows openapi.json: each route with its parameters, body and answers.
const element = (name, text) => {
  const made = document.createElement(name);
  if (text !== undefined) made.textContent = text;
  return made;
};

// An element with a text, in which words between backticks become code.
const prose = (name, text) => {
  const made = element(name);
  (text ?? "").split("`").forEach((part, at) => made.append(at % 2 ? element("code", part) : part));
  return made;
};

const resolved = (schema, all) => {
  const name = schema?.$ref?.split("/").pop();
  return name ? { name, ...all[name] } : schema ?? {};
};

const kind = (schema, all) => {
  if (!schema) return "";
  if (schema.$ref) return schema.$ref.split("/").pop();
  if (schema.const !== undefined) return JSON.stringify(schema.const);
  if (schema.enum) return schema.enum.map((value) => JSON.stringify(value)).join(" | ");
  const either = schema.anyOf ?? schema.oneOf;
  if (either) return either.map((one) => kind(one, all)).join(" | ");
  if (schema.type === "array" || schema.items) return `list of ${kind(schema.items, all)}`;
  return [].concat(schema.type ?? "anything").join(" | ");
};

const table = (rows) => {
  const made = element("table");
  for (const [name, type, text] of rows) {
    const row = element("tr");
    const code = element("td");
    code.append(element("code", name));
    row.append(code, element("td", type), prose("td", text));
    made.append(row);
  }
  return made;
};

const fields = (schema, all) => {
  const { properties = {}, required = [] } = resolved(schema, all);
  return Object.entries(properties).map(([name, of]) => [
    required.includes(name) ? name : `${name}?`,
    kind(of, all),
    of.description,
  ]);
};

const spec = await (await fetch("openapi.json")).json();
const all = spec.components.schemas;
document.getElementById("title").textContent = spec.info.title;
document.getElementById("about").textContent = spec.info.description;
const routes = document.getElementById("routes");
for (const [path, methods] of Object.entries(spec.paths)) {
  for (const [method, route] of Object.entries(methods)) {
    const section = element("section");
    section.append(element("h2", `${method.toUpperCase()} ${path}`), prose("p", route.summary));
    if (route.parameters?.length) {
      section.append(
        element("h3", "Parameters"),
        table(route.parameters.map((one) => [one.name, kind(one.schema, all), one.description ?? one.schema.description])),
      );
    }
    const body = route.requestBody?.content?.["application/json"]?.schema;
    if (body) section.append(element("h3", "Body"), table(fields(body, all)));
    const answers = Object.entries(route.responses).map(([status, answer]) => {
      const schema = Object.values(answer.content ?? {})[0]?.schema;
      return [status, kind(schema, all), answer.description];
    });
    section.append(element("h3", "Answers"), table(answers));
    routes.append(section);
  }
}
for (const [name, schema] of Object.entries(all)) {
  const rows = fields(schema, all);
  if (!rows.length) continue;
  const section = element("section");
  section.append(element("h2", name), prose("p", schema.description), table(rows));
  routes.append(section);
}
