import { Api } from "./api.js";
import { Controller } from "./call/controller.js";
import "./styles/main.css";
import { App } from "./ui/app.js";

const mount = document.getElementById("app");
if (mount === null) throw new Error("index.html has no element #app");
const controller = new Controller(new Api());
void controller.open(new App(mount, controller));
