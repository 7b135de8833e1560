// docs/api.md: every route and every named schema as people read them.
import { type Route, readRole } from '../../src/wire/route.ts';
import { type Contract, follow, type JsonSchema, type NamedRoute, nameOfRef } from './contract.ts';

const code = (text: string): string => `\`${text}\``;
const cell = (text: string): string => text.replaceAll('|', '\\|').replaceAll('\n', ' ');
const anchor = (name: string): string => name.toLowerCase();

/** Describes the limits that JSON Schema can express: `≥ 1`, `≤ 64 characters` … */
function limits(schema: JsonSchema): string {
  const one = (key: string, before: string, after = ''): string[] => {
    const value = schema[key];
    // Every integer is limited by the range of JSON numbers; repeating that would hide real
    // limits.
    if (typeof value !== 'number' || Math.abs(value) >= Number.MAX_SAFE_INTEGER) return [];
    return [`${before} ${value}${after}`];
  };
  return [
    ...one('minimum', '≥'),
    ...one('exclusiveMinimum', '>'),
    ...one('maximum', '≤'),
    ...one('minLength', '≥', ' characters'),
    ...one('maxLength', '≤', ' characters'),
    ...one('minItems', '≥', ' items'),
    ...one('maxItems', '≤', ' items'),
  ].join(', ');
}

function typeWords(schema: JsonSchema): string {
  const ref = schema.$ref;
  if (typeof ref === 'string') return `[${nameOfRef(ref)}](#${anchor(nameOfRef(ref))})`;
  const choices = schema.anyOf ?? schema.oneOf;
  if (Array.isArray(choices)) return choices.map(typeWords).join(' or ');
  if ('const' in schema) return code(JSON.stringify(schema.const));
  if (Array.isArray(schema.enum)) return schema.enum.map((one) => code(one)).join(' ');
  const bounds = limits(schema);
  const bounded = bounds === '' ? '' : ` (${bounds})`;
  if (schema.type === 'array') {
    return `list of ${typeWords((schema.items ?? {}) as JsonSchema)}${bounded}`;
  }
  if (schema.type === 'object') {
    const fields = Object.keys(schema.properties ?? {});
    return fields.length === 0 ? 'object' : `object { ${fields.map(code).join(', ')} }`;
  }
  const types = [schema.type ?? 'anything'].flat().join(' or ');
  return `${types}${bounded}`;
}

function fieldRows(schema: JsonSchema, place: string): string[] {
  const required = (schema.required ?? []) as string[];
  return Object.entries((schema.properties ?? {}) as Record<string, JsonSchema>).map(
    ([name, field]) => {
      const note = [
        required.includes(name) ? '' : 'optional',
        'default' in field ? `default ${code(JSON.stringify(field.default))}` : '',
        String(field.description ?? ''),
      ];
      const words = [code(name), place, typeWords(field), note.filter(Boolean).join('; ')];
      return `| ${words.map(cell).join(' | ')} |`;
    },
  );
}

/** People need a role as well. */
const writeCaller = (kind: string, route: Route): string =>
  kind === 'operator' ? `operator (role ${readRole(route)})` : kind;

function writeRoute(entry: NamedRoute, schemas: Contract['schemas']): string {
  const { route } = entry;
  const remarks = [
    `${code(entry.name)} · for ${route.callers.map((kind) => writeCaller(kind, route)).join(', ')}`,
    route.creates ? 'takes an `Idempotency-Key`' : '',
    route.streams ? 'may respond with a stream of events' : '',
    route.dialect ? `requests, responses and errors as ${route.dialect} writes them` : '',
    route.bodySizeBytesMax ? `body up to ${route.bodySizeBytesMax} bytes` : '',
  ].filter(Boolean);
  const body = entry.body && follow(entry.body, schemas);
  const rows = [
    ...(entry.params ? fieldRows(follow(entry.params, schemas), 'path') : []),
    ...(entry.query ? fieldRows(follow(entry.query, schemas), 'query') : []),
    ...(body ? fieldRows(body, 'body') : []),
    ...fieldRows(entry.output, 'response'),
  ];
  const whole = [
    body && !('properties' in body) ? `Body: ${typeWords(entry.body!)}.` : '',
    '$ref' in entry.output || rows.length === 0 ? `Response: ${typeWords(entry.output)}.` : '',
  ].filter(Boolean);
  return [
    `### ${route.method} ${route.path}`,
    `${remarks.join(' · ')}`,
    ...(whole.length > 0 ? [whole.join(' ')] : []),
    ...(rows.length > 0 ? [`| field | in | type | |\n|---|---|---|---|\n${rows.join('\n')}`] : []),
  ].join('\n\n');
}

function writeSchema(name: string, schema: JsonSchema): string {
  const rows = fieldRows(schema, '').map((row) => row.replace(' |  | ', ' | '));
  const matching = schema.pattern ? `, matching ${code(String(schema.pattern))}` : '';
  const body =
    rows.length === 0
      ? `${typeWords(schema)}${matching}`
      : `| field | type | |\n|---|---|---|\n${rows.join('\n')}`;
  return `### ${name}\n\n${body}`;
}

export function writeApiPage({ routes, schemas }: Contract): string {
  const daemons = [...new Set(routes.map(({ daemon }) => daemon))];
  const sections = daemons.map((daemon) => {
    const own = routes.filter((entry) => entry.daemon === daemon);
    return [`## ${daemon}`, ...own.map((entry) => writeRoute(entry, schemas))].join('\n\n');
  });
  const named = Object.keys(schemas).sort();
  return `# API

<!-- Made by tools/docs.ts from src/wire. Change that, then run: make docs -->

HTTP and JSON on every link: a Unix socket per daemon, or one port for all of them. Callers are
\`operator\` (a person with the key file), \`run\` (an agent's activation, through its own socket)
and daemons by name. Servers refuse unknown fields; clients ignore them. Errors are in
[errors.md](errors.md); the same routes for programs are in [openapi.json](openapi.json).

${sections.join('\n\n')}

## Schemas

${named.map((name) => writeSchema(name, schemas[name]!)).join('\n\n')}
`;
}
