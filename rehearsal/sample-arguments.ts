// Generates arguments that satisfy a tool's JSON schema, for a request that forces a call which is
// not in the screenplay.

type Schema = { [key: string]: unknown };

function isSchema(value: unknown): value is Schema {
  return value !== null && typeof value === 'object' && !Array.isArray(value);
}

function sampleValue(schema: unknown, text: string, depth: number): unknown {
  if (!isSchema(schema)) return text;
  if ('const' in schema) return schema.const;
  if (Array.isArray(schema.enum) && schema.enum.length > 0) return schema.enum[0];
  switch (schema.type) {
    case 'integer':
    case 'number':
      return typeof schema.minimum === 'number' ? schema.minimum : 1;
    case 'boolean':
      return true;
    case 'null':
      return null;
    case 'array':
      return depth > 0 && Number(schema.minItems) > 0
        ? [sampleValue(schema.items, text, depth - 1)]
        : [];
    case 'object':
      return depth > 0 ? sampleArguments(schema, text, depth - 1) : {};
    default:
      return text;
  }
}

export function sampleArguments(schema: unknown, text: string, depth = 4): Record<string, unknown> {
  if (!isSchema(schema) || !isSchema(schema.properties)) return {};
  const required = Array.isArray(schema.required) ? schema.required.map(String) : [];
  const properties = schema.properties;
  return Object.fromEntries(
    required.map((key) => [key, sampleValue(properties[key], text, depth)]),
  );
}
