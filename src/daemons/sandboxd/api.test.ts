// Tests that a command is killed when its caller disconnects, also during its start.
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { SandboxCommand } from './adapters/warden.ts';
import { makeHandlers, type SandboxdDeps } from './api.ts';

function fakeCommand() {
  const ended = Promise.withResolvers<never>();
  let kills = 0;
  const command = {
    pid: 1,
    ended: ended.promise,
    discard() {},
    stdinEnd() {},
    signal() {},
    async *readOutput() {},
    stdin: async () => undefined,
    kill: () => void kills++,
  } as unknown as SandboxCommand;
  return { command, kills: () => kills };
}

for (const route of ['execBox', 'runOnce'] as const) {
  describe(`the caller of ${route}`, () => {
    const begin = (disconnects: 'before' | 'after' | 'never') => {
      const { command, kills } = fakeCommand();
      const caller = new AbortController();
      const start = async (): Promise<SandboxCommand> => {
        if (disconnects === 'before') caller.abort();
        return command;
      };
      const boxes = { exec: start, runOnce: start, ownerOf: () => undefined };
      const handlers = makeHandlers({ boxes } as unknown as SandboxdDeps);
      const asked = { params: { id: 'box_1' }, body: {}, signal: caller.signal };
      const answered = Promise.resolve(handlers[route](asked as never));
      return { answered, kills, leave: () => caller.abort() };
    };
    it('disconnects while the command starts', async () => {
      const { answered, kills } = begin('before');
      await answered;
      assert.equal(kills(), 1);
    });
    it('disconnects while the command runs', async () => {
      const { answered, kills, leave } = begin('after');
      await answered;
      assert.equal(kills(), 0);
      leave();
      assert.equal(kills(), 1);
    });
    it('stays connected', async () => {
      const { answered, kills } = begin('never');
      await answered;
      assert.equal(kills(), 0);
    });
  });
}
