// Finds the words of a manifest that stand for no tool: they are valid, and grant nothing yet.
import type { ToolView } from '../../../wire/toold.ts';

type ManifestPart = {
  spec?: {
    tools?: { allow?: string[] };
    memory?: { read?: string[]; write?: string[] };
  };
};

/** Returns capabilities without a tool; `memory.read` and `memory.write` for its scopes. */
export function findMissingTools(manifest: unknown, tools: readonly ToolView[]): string[] {
  const { tools: { allow = [] } = {}, memory = {} } = (manifest as ManifestPart).spec ?? {};
  const known = new Set(tools.flatMap(({ name, capabilities }) => [name, ...capabilities]));
  const scopes = (['read', 'write'] as const).filter((key) => (memory[key] ?? []).length > 0);
  const words = [...allow, ...scopes.map((key) => `memory.${key}`)];
  return [...new Set(words)].filter((word) => !known.has(word));
}

/** One line for each, for a field beside those that have tools. */
export const renderMissingTools = (words: readonly string[]): string =>
  words.map((word) => `${word}: no tool yet`).join('\n');
