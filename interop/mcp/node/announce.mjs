// Loaded first (node --import ./announce.mjs …), it has each server of the program say on stderr at which port it listens: the programs
// are started with PORT=0, and some print that.
import net from 'node:net';

const listen = net.Server.prototype.listen;
net.Server.prototype.listen = function (...args) {
  this.once('listening', () => process.stderr.write(`listening at port ${this.address().port}\n`));
  return listen.apply(this, args);
};
