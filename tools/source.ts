// Reads the tree for the checks: the files of the project, the imports of a TypeScript file, its
// syntax tree.
import { spawnSync } from 'node:child_process';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join, posix } from 'node:path';
import { type ParseResult, parseSync } from 'oxc-parser';

/** A finding of a check; a `warning` is shown and does not fail it. */
export type Finding = { path: string; line?: number; text: string; warning?: true };

const neverOurs = new Set(['node_modules', 'build', 'coverage', '.git']);

/**
 * Lists the project's files relative to root: those git tracks or would track, else all files.
 */
export function listFiles(root: string): string[] {
  if (existsSync(join(root, '.git'))) {
    const git = spawnSync('git', ['ls-files', '-co', '--exclude-standard', '-z'], { cwd: root });
    if (git.status === 0) {
      const paths = git.stdout.toString().split('\0').filter(Boolean);
      return [...new Set(paths)].filter((path) => existsSync(join(root, path))).sort();
    }
  }
  const found: string[] = [];
  const walk = (folder: string): void => {
    for (const entry of readdirSync(join(root, folder), { withFileTypes: true })) {
      const path = posix.join(folder, entry.name);
      if (entry.isFile()) found.push(path);
      else if (entry.isDirectory() && !neverOurs.has(entry.name)) walk(path);
    }
  };
  walk('');
  return found.sort();
}

export type Source = { path: string; text: string; lineAt: (offset: number) => number } & Pick<
  ParseResult,
  'module' | 'program' | 'errors'
>;

export function readSource(root: string, path: string): Source {
  const text = readFileSync(join(root, path), 'utf8');
  const parsed = parseSync(path, text);
  return {
    path,
    text,
    lineAt: (offset) => text.slice(0, offset).split('\n').length,
    module: parsed.module,
    // Deserialized when first asked for: most checks need only the imports.
    get program() {
      return parsed.program;
    },
    errors: parsed.errors,
  };
}

export type Import = { specifier: string; typeOnly: boolean; line: number };

/** Every import of a file: static, re-exported and dynamic. */
export function listImports(source: Source): Import[] {
  const { staticImports, staticExports, dynamicImports } = source.module;
  const found: Import[] = [];
  for (const { moduleRequest, entries, start } of staticImports) {
    found.push({
      specifier: moduleRequest.value,
      typeOnly: entries.length > 0 && entries.every(({ isType }) => isType),
      line: source.lineAt(start),
    });
  }
  for (const { entries, start } of staticExports) {
    for (const { moduleRequest, isType } of entries) {
      if (moduleRequest === null) continue;
      found.push({
        specifier: moduleRequest.value,
        typeOnly: isType,
        line: source.lineAt(start),
      });
    }
  }
  for (const { moduleRequest, start } of dynamicImports) {
    const written = source.text.slice(moduleRequest.start, moduleRequest.end);
    // A computed name cannot be checked here; the bundler and the type check still see it.
    if (!/^['"`][^$]*['"`]$/.test(written)) continue;
    const specifier = written.slice(1, -1);
    found.push({ specifier, typeOnly: false, line: source.lineAt(start) });
  }
  return found;
}

export type Node = { type: string; start: number; [key: string]: unknown };

/** Calls `visit` with every node of the syntax tree. */
export function walkSyntax(source: Source, visit: (node: Node) => void): void {
  const step = (value: unknown): void => {
    if (Array.isArray(value)) value.forEach(step);
    else if (typeof value === 'object' && value !== null) {
      if ('type' in value && typeof value.type === 'string') visit(value as Node);
      Object.values(value).forEach(step);
    }
  };
  step(source.program);
}

/** `a.b` of a member expression between plain names, else undefined. */
export function memberName(node: Node): string | undefined {
  const { object, property } = node as { object?: Node; property?: Node };
  if (node.type !== 'MemberExpression' || object?.type !== 'Identifier') return undefined;
  return `${String(object.name)}.${String(property?.name ?? property?.value)}`;
}

/** Prints findings and sets the exit status: 1 when one of them is more than a warning. */
export function report(check: string, findings: readonly Finding[]): void {
  for (const { path, line, text, warning } of findings) {
    const place = line === undefined ? path : `${path}:${line}`;
    console.log(`${place}: ${warning ? 'warning: ' : ''}${text}`);
  }
  const wrong = findings.filter(({ warning }) => !warning).length;
  if (wrong === 0) return;
  console.log(`${check}: ${wrong} to mend`);
  process.exitCode = 1;
}
