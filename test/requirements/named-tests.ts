// Reads documents that name tests as evidence, as `path.test.ts` “title”, and lists those that do
// not exist.
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { readSource, walkSyntax } from '../../tools/source.ts';

type Named = { path: string; name: string };

/** `test/a.test.ts` “one” “two” names two tests; a path alone names the whole file. */
export function namedTests(text: string): Named[] {
  const references = text.matchAll(/`((?:src|test)\/[^`\s]+\.test\.ts)`((?:[\s,]*“[^”]+”)*)/g);
  return [...references].flatMap(([, path, names]) => {
    const each = [...(names ?? '').matchAll(/“([^”]+)”/g)].map(([, name]) => name!);
    return each.length === 0
      ? [{ path: path!, name: '' }]
      : each.map((name) => ({ path: path!, name }));
  });
}

/** Removes the requirement ids in front of a title, which pages need not repeat. */
const bare = (name: string): string => name.replace(/^(\[[^\]]+\][\s…]*)+/, '').trim();

const testWords = new Set(['test', 'it', 'describe', 'suite']);
type Text = { value?: unknown; quasis?: { value: { cooked: string } }[] };
const textOf = (node: Text | undefined): unknown =>
  node?.value ?? node?.quasis?.map(({ value }) => value.cooked).join('…');

/** Titles of tests, and those in tables of tests; … stands for interpolated values. */
function testNamesIn(root: string, path: string): Set<string> {
  const names = new Set<string>();
  walkSyntax(readSource(root, path), (node) => {
    if (node.type === 'CallExpression') {
      type Callee = { name?: string; property?: { name?: string }; object?: { name?: string } };
      const { name, property, object } = node.callee as Callee;
      if (![name, property?.name, object?.name].some((word) => testWords.has(word ?? ''))) return;
      const text = textOf((node.arguments as Text[])[0]);
      if (typeof text === 'string') names.add(bare(text));
    }
    if (node.type === 'Property' && (node.key as { name?: string }).name === 'title') {
      const text = textOf(node.value as Text);
      if (typeof text === 'string') names.add(bare(text));
    }
  });
  return names;
}

/** Returns a sentence for each test that a document names and that does not exist. */
export function missingTests(root: string, document: string): string[] {
  const known = new Map<string, Set<string>>();
  return namedTests(readFileSync(join(root, document), 'utf8')).flatMap(({ path, name }) => {
    if (!existsSync(join(root, path))) return [`${document}: ${path} does not exist`];
    if (name === '') return [];
    const names = known.get(path) ?? testNamesIn(root, path);
    known.set(path, names);
    return names.has(bare(name)) ? [] : [`${document}: no test in ${path} is called “${name}”`];
  });
}
