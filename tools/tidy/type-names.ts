// Finds exported type names that two files declare. One name is one concept in the whole
// repository; if two daemons need the word, they prefix it.
import type { Finding, Source } from '../source.ts';

export type TypeName = { name: string; path: string; line: number };

/** Returns the types that a file declares and exports; not those it passes on from another file. */
export function listExportedTypes(path: string, source: Source): TypeName[] {
  return source.module.staticExports.flatMap(({ entries, start }) =>
    entries
      .filter(({ isType, moduleRequest }) => isType && moduleRequest === null)
      .map(({ exportName }) => exportName.name)
      .filter((name) => name !== null)
      .filter((name) => new RegExp(`^export (?:type|interface) ${name}\\b`, 'm').test(source.text))
      .map((name) => ({ name, path, line: source.lineAt(start) })),
  );
}

export function checkTypeNames(types: readonly TypeName[]): Finding[] {
  const first = new Map<string, TypeName>();
  return types.flatMap((type) => {
    const other = first.get(type.name);
    if (other === undefined) first.set(type.name, type);
    if (other === undefined || other.path === type.path) return [];
    const text = `the type ${type.name} is also declared in ${other.path}: one name, one concept`;
    return [{ path: type.path, line: type.line, text }];
  });
}
