// A person at the terminal of a command in a box: types, and waits for what appears.
import type { SandboxCommand } from '../../../src/daemons/sandboxd/adapters/warden.ts';

export class TerminalSession {
  readonly command: SandboxCommand;
  /** Everything that appeared. */
  text = '';
  readonly #ended: Promise<void>;
  #wake: () => void = () => undefined;
  #isOver = false;

  constructor(command: SandboxCommand) {
    this.command = command;
    this.#ended = this.#read();
  }

  async #read(): Promise<void> {
    for await (const { stream, bytes } of this.command.readOutput()) {
      if (stream !== 'stdout') throw new Error(`a terminal has one stream, not ${stream}`);
      this.text += bytes.toString('latin1');
      this.#wake();
    }
    this.#isOver = true;
    this.#wake();
  }

  type(text: string): void {
    this.command.stdin(Buffer.from(text, 'latin1'));
  }

  /** Waits until this appears after what earlier calls have waited for. */
  async until(pattern: RegExp): Promise<RegExpExecArray> {
    const deadline = Date.now() + 20_000;
    for (;;) {
      const found = pattern.exec(this.text.slice(this.#seen));
      if (found !== null) {
        this.#seen += found.index + found[0].length;
        return found;
      }
      if (this.#isOver || Date.now() > deadline)
        throw new Error(`${pattern} did not appear: ${JSON.stringify(this.text.slice(-2_000))}`);
      await new Promise<void>((resolve) => {
        const timer = setTimeout(resolve, 1_000);
        this.#wake = () => {
          clearTimeout(timer);
          resolve();
        };
      });
    }
  }
  #seen = 0;

  /** The exit, once all output has been read. */
  async end() {
    const exit = await this.command.ended;
    await this.#ended;
    if (exit === 'gone') throw new Error('the warden is gone');
    return exit;
  }
}
