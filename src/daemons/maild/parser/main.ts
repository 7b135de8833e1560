// Reads mail in a process of its own, which may open no file and start no program: maild starts it
// when mail arrives, ends it when it hangs, and lets it go when nothing arrives for a while.
import type { ParseRequest, ParseResponse } from './messages.ts';
import { parseMail } from './parse-mail.ts';

const send = (response: ParseResponse): void => {
  process.send?.(response);
};

process.on('message', ({ id, raw, withContent }: ParseRequest) => {
  parseMail(raw, withContent).then(
    (mail) => send({ id, mail }),
    (error: unknown) => send({ id, problem: (error as Error).message.slice(0, 200) }),
  );
});
process.on('disconnect', () => process.exit(0));
