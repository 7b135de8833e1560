// Test helper: a tool as an operator declares it, and a host that records the commands it gets and
// returns a scripted result.
import assert from 'node:assert/strict';
import { readYaml } from '../../../platform/yaml-file.ts';
import { Declaration } from '../command-tools/declaration.ts';
import { type HostCommand, makeCommandTool } from '../command-tools/make.ts';
import type { ExecResult } from '../tools/box.ts';

export const BASE = `name: service.restart
description: Restart a service.
risk: high
reversibility: irreversible
idempotent: false
`;
const ARGV =
  "[/usr/bin/restart, '{service}', '--count={count}', { if: tag, add: [--tag, '{tag}'] }]";
export const RESTART = `${BASE}argv: ${ARGV}
input:
  service: { type: string, pattern: '[a-z-]+' }
  count: { type: integer, min: 1, max: 9, default: 2 }
  tag: { type: string, enum: [blue, green], optional: true }
`;

export function declare(text: string): Declaration {
  const result = readYaml(text, 'x.yaml', Declaration);
  assert.ok(result.ok, JSON.stringify(result));
  return result.value;
}

const done: ExecResult = {
  exitCode: 0,
  signal: null,
  endedBy: null,
  wallMs: 1,
  networkDenied: [],
  stdout: Buffer.from('done\n'),
  stderr: Buffer.alloc(0),
  stdoutTruncated: false,
  stderrTruncated: false,
};

export function fakeHost() {
  const commands: HostCommand[] = [];
  let result = done;
  const places = {
    host: {
      async run(_: unknown, request: HostCommand) {
        commands.push(request);
        return result;
      },
    },
  };
  return {
    places,
    commands,
    returns(more: Partial<ExecResult> = {}): void {
      result = { ...done, ...more };
    },
    make: (text: string) => makeCommandTool(declare(text), places),
  };
}
