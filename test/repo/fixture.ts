// Small trees in a temporary directory, and the project's tools run on them or on the real tree.
import { spawnSync } from 'node:child_process';
import { chmodSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import type { TestContext } from 'node:test';

export const projectRoot = join(import.meta.dirname, '../..');

export type Files = Record<string, string | readonly string[]>;

/** Writes files (a list is its lines) and removes them when the test ends. */
export function makeTree(t: TestContext, files: Files): string {
  const root = mkdtempSync(join(tmpdir(), 'agentd-repo-'));
  t.after(() => rmSync(root, { recursive: true, force: true }));
  addFiles(root, files);
  return root;
}

export function addFiles(root: string, files: Files): void {
  for (const [path, content] of Object.entries(files)) {
    mkdirSync(dirname(join(root, path)), { recursive: true });
    const text = typeof content === 'string' ? content : `${content.join('\n')}\n`;
    writeFileSync(join(root, path), text);
    if (text.startsWith('#!')) chmodSync(join(root, path), 0o755);
  }
}

export type ToolRunResult = { status: number | null; output: string };

export function runTool(tool: string, ...args: string[]): ToolRunResult {
  const path = join(projectRoot, 'tools', tool);
  const ran = spawnSync(process.execPath, [path, ...args], { encoding: 'utf8' });
  return { status: ran.status, output: ran.stdout + ran.stderr };
}
