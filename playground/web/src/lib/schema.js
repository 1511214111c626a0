// What a JSON Schema says to a person who fills in a form.

// resolve follows local references.
export function resolve(schema, root = schema) {
  for (let i = 0; i < 20 && schema && typeof schema === "object" && typeof schema.$ref === "string"; i++) {
    if (!schema.$ref.startsWith("#")) return {};
    let at = root;
    for (const step of schema.$ref.slice(1).split("/").slice(1)) at = at?.[decodeURIComponent(step).replaceAll("~1", "/").replaceAll("~0", "~")];
    schema = { ...(typeof at === "object" ? at : {}), ...schema, $ref: at?.$ref };
  }
  return schema && typeof schema === "object" ? schema : {};
}

export const typeOf = (s) => (Array.isArray(s.type) ? s.type.find((t) => t !== "null") : s.type) ?? (s.properties ? "object" : s.items ? "array" : s.enum || s.oneOf?.every((x) => typeof x.const === "string") ? "string" : undefined);

// choices are the values of an enumeration with their titles, or undefined.
export function choices(s) {
  if (Array.isArray(s.enum)) return s.enum.map((v, i) => ({ value: v, title: s.enumNames?.[i] ?? String(v) }));
  const list = s.oneOf ?? s.anyOf;
  if (list?.length && list.every((x) => x && "const" in x)) return list.map((x) => ({ value: x.const, title: x.title ?? String(x.const) }));
  if (typeOf(s) === "boolean") return undefined;
  return undefined;
}

// hint is the type and its bounds in a few words.
export function hint(s) {
  const type = typeOf(s);
  const words = [];
  if (s.format) words.push(s.format);
  else if (type) words.push(type);
  if (s.minimum !== undefined && s.maximum !== undefined) words.push(s.minimum + " to " + s.maximum);
  else if (s.minimum !== undefined) words.push("at least " + s.minimum);
  else if (s.maximum !== undefined) words.push("at most " + s.maximum);
  if (s.minLength !== undefined && s.maxLength !== undefined) words.splice(0, words.length, s.minLength + " to " + s.maxLength + " characters");
  if (s.default !== undefined && typeof s.default !== "object") words.push("default " + s.default);
  return words.join(", ");
}

// sample is a value to begin with; only what is required is in it.
export function sample(schema, root = schema, depth = 0) {
  const s = resolve(schema, root);
  if (s.default !== undefined) return s.default;
  if (s.const !== undefined) return s.const;
  if (s.examples?.length) return s.examples[0];
  const all = choices(s);
  if (all?.length) return all[0].value;
  if (s.oneOf?.length) return sample(s.oneOf[0], root, depth + 1);
  if (s.anyOf?.length) return sample(s.anyOf[0], root, depth + 1);
  switch (typeOf(s)) {
    case "integer":
    case "number":
      return Math.max(s.minimum ?? 0, s.exclusiveMinimum !== undefined ? s.exclusiveMinimum + 1 : 0);
    case "boolean":
      return false;
    case "array":
      return [];
    case "null":
      return null;
    case "string":
      return "";
  }
  const out = {};
  if (depth < 6) for (const name of s.required ?? []) if (s.properties?.[name]) out[name] = sample(s.properties[name], root, depth + 1);
  return out;
}

// fields are the members of an object schema: {name, schema, required}.
export function fields(schema) {
  const s = resolve(schema);
  const order = s["x-order"] ?? [];
  const names = [...order, ...Object.keys(s.properties ?? {}).filter((n) => !order.includes(n))];
  return names.filter((n) => s.properties?.[n] !== undefined).map((name) => ({ name, schema: resolve(s.properties[name], schema), required: (s.required ?? []).includes(name) }));
}

// written is the JSON text of what a person typed into a field of this type. What does not fit stays a string: it may be meant.
export function written(text, type) {
  if (type === "string") return JSON.stringify(text);
  const t = text.trim();
  try {
    JSON.parse(t);
    return t;
  } catch {
    return JSON.stringify(text);
  }
}

// misfits are sentences about what a value lacks of a flat schema, such as a question's form has.
export function misfits(schema, value) {
  const out = [];
  const object = value && typeof value === "object" && !Array.isArray(value) ? value : {};
  for (const f of fields(schema)) {
    const name = f.schema.title ?? f.name;
    const v = object[f.name];
    const s = f.schema;
    if (v === undefined) {
      if (f.required) out.push(name + " is missing.");
      continue;
    }
    const type = typeOf(s);
    const is = Array.isArray(v) ? "array" : v === null ? "null" : typeof v;
    if (type && type !== is && !(type === "integer" && Number.isInteger(v)) && !(is === "number" && type === "number")) out.push(name + " is not of type " + type + ".");
    else if (is === "string" && [...v].length < (s.minLength ?? 0)) out.push(name + " is shorter than " + s.minLength + " characters.");
    else if (is === "string" && [...v].length > (s.maxLength ?? Infinity)) out.push(name + " is longer than " + s.maxLength + " characters.");
    else if (is === "number" && v < (s.minimum ?? -Infinity)) out.push(name + " is less than " + s.minimum + ".");
    else if (is === "number" && v > (s.maximum ?? Infinity)) out.push(name + " is more than " + s.maximum + ".");
    else if (choices(s) && !choices(s).some((c) => c.value === v)) out.push(name + " is not one of the choices.");
  }
  return out;
}
