// Writes plain objects as YAML. Ambiguous strings are quoted as JSON, which is valid YAML.

const BARE = /^[A-Za-z_/][A-Za-z0-9_./-]*( [A-Za-z0-9_./-]+)*$/;
const AMBIGUOUS = /^(true|false|null|yes|no|on|off|y|n)$/i;

const isMap = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

function formatScalar(value: unknown): string {
  if (typeof value === 'string')
    return BARE.test(value) && !AMBIGUOUS.test(value) ? value : JSON.stringify(value);
  return JSON.stringify(value) ?? 'null';
}

const isEmpty = (value: unknown): boolean =>
  (Array.isArray(value) && value.length === 0) || (isMap(value) && Object.keys(value).length === 0);

const isScalar = (value: unknown): boolean =>
  typeof value !== 'object' || value === null || isEmpty(value);

/** Multi-line text that a block scalar preserves exactly: it ends with one newline. */
const isBlock = (value: unknown): value is string =>
  typeof value === 'string' &&
  /^[\x21-\x7e\u00a1-\ud7ff][\x20-\x7e\u00a1-\ud7ff\n]*[^\n ]\n$/.test(value);

const indentLines = (text: string, indent: string): string[] =>
  text
    .slice(0, -1)
    .split('\n')
    .map((line) => (line === '' ? '' : indent + line));

export function toYaml(value: Readonly<Record<string, unknown>>): string[] {
  return renderMap(value, '');
}

function renderMap(value: Readonly<Record<string, unknown>>, indent: string): string[] {
  return Object.entries(value).flatMap(([key, member]) => {
    if (member === undefined) return [];
    const head = `${indent}${formatScalar(key)}:`;
    if (isBlock(member)) return [`${head} |`, ...indentLines(member, `${indent}  `)];
    if (isScalar(member)) return [`${head} ${formatScalar(member)}`];
    return [head, ...renderBlock(member, `${indent}  `)];
  });
}

function renderBlock(value: unknown, indent: string): string[] {
  if (isMap(value)) return renderMap(value, indent);
  return (value as unknown[]).flatMap((member) => {
    if (isScalar(member)) return [`${indent}- ${formatScalar(member)}`];
    // The dash replaces two columns of the first line's indent.
    const [first = '', ...rest] = renderBlock(member, `${indent}  `);
    return [`${indent}- ${first.slice(indent.length + 2)}`, ...rest];
  });
}
